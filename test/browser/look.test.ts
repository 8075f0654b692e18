import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { smallTargets, tooWide } from "../harness/page-probes.ts";
import { chromiumEndpoint, openScreen } from "../harness/screen.ts";
import { createByHand, makeKeys, openCreateDialog, wholePage } from "../harness/screen-flows.ts";
import { takePictures } from "../harness/screen-state.ts";

/** Shows the page, and then both steps of the dialog of a new key. */
async function onPageAndDialog(page: Page, check: () => Promise<void>): Promise<void> {
  await wholePage(page);
  await check();
  await openCreateDialog(page);
  await check();
  await page.keyboard.press("Escape");
  await createByHand(page, "W".repeat(128));
  await check();
}

describe.skipIf(chromiumEndpoint === "")("for each person and device", () => {
  test("at 400 % zoom nothing is cut off or scrolls sideways", async () => {
    // 1280 × 1024 px at 400 % are 320 × 256 CSS pixels (WCAG 2.2, 1.4.10).
    const screen = await openScreen({
      browser: { viewport: { width: 320, height: 256 }, deviceScaleFactor: 4 },
    });
    const { page } = screen;
    await makeKeys(screen, "W".repeat(128), "");
    await screen.signIn();
    await onPageAndDialog(page, async () => expect(await tooWide(page)).toEqual([]));
    const done = page.getByRole("button", { name: "Done" });
    await done.scrollIntoViewIfNeeded();
    expect((await done.boundingBox())!.y).toBeLessThan(256);
  });

  test("with the text spacing of WCAG 2.2, 1.4.12, nothing is cut off", async () => {
    const screen = await openScreen({ browser: { viewport: { width: 320, height: 860 } } });
    const { page } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    // WCAG 2.2, 1.4.12. Set by the browser, because the page's policy allows no other style.
    await page.evaluate(`{
      const sheet = new CSSStyleSheet();
      sheet.replaceSync("* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }");
      document.adoptedStyleSheets = [sheet];
    }`);
    await onPageAndDialog(page, async () => expect(await tooWide(page)).toEqual([]));
  });

  test("with reduced motion nothing moves, and otherwise the dialog does", async () => {
    const screen = await openScreen({ browser: { reducedMotion: "no-preference" } });
    const { page } = screen;
    await screen.signIn();
    const animation = async () => {
      await openCreateDialog(page);
      const name = await page.evaluate("getComputedStyle(document.querySelector('dialog')).animationName");
      const running = await page.evaluate(
        "document.getAnimations().filter((one) => one instanceof CSSAnimation).length",
      );
      await page.keyboard.press("Escape");
      return { name, running };
    };
    expect((await animation()).name).toBe("rise");
    await page.emulateMedia({ reducedMotion: "reduce" });
    expect(await animation()).toEqual({ name: "none", running: 0 });
  });

  test("in forced colours every control has an edge, and the meter still shows how much is used", async () => {
    const screen = await openScreen({ browser: { forcedColors: "active" } });
    const { page } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    const edges = await page.evaluate<string[]>(`[...document.querySelectorAll("main .button, meter")]
      .filter((one) => getComputedStyle(one).borderTopColor === getComputedStyle(document.body).backgroundColor
        || getComputedStyle(one).borderTopStyle === "none")
      .map((one) => one.textContent || one.tagName)`);
    expect(edges).toEqual([]);
    await takePictures(page, "forced-colours");
  });

  test("under a mouse every target has 24 px, and under a finger every control 44", async () => {
    const mouse = await openScreen();
    await makeKeys(mouse, "ci-deploy");
    await mouse.signIn();
    await onPageAndDialog(mouse.page, async () => expect(await smallTargets(mouse.page, 24)).toEqual([]));
    const finger = await openScreen({
      browser: { hasTouch: true, isMobile: true, viewport: { width: 390, height: 844 } },
    });
    await makeKeys(finger, "ci-deploy");
    await finger.signIn();
    await onPageAndDialog(finger.page, async () => expect(await smallTargets(finger.page, 44)).toEqual([]));
  });

  test("a focused control is never under the bar at the top", async () => {
    const screen = await openScreen({ browser: { viewport: { width: 768, height: 500 } } });
    const { page } = screen;
    await makeKeys(screen, ...Array.from({ length: 12 }, (_, index) => `key-${index}`));
    await screen.signIn();
    const bar = (await page.locator(".frame-header").boundingBox())!.height;
    await page.getByRole("link", { name: "OpenAPI" }).focus();
    for (let presses = 0; presses < 16; presses++) {
      await page.keyboard.press("Shift+Tab");
      const top = await page.evaluate<number>("document.activeElement.getBoundingClientRect().top");
      const bottom = await page.evaluate<number>("document.activeElement.getBoundingClientRect().bottom");
      expect(bottom).toBeGreaterThan(bar);
      expect(top).toBeLessThan(500);
    }
  });
});
