import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { focused, smallTargets, tooWide } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { createByHand, makeKeys, openCreateDialog, wholePage } from "./screen-flows.ts";
import { takePictures } from "./screen-state.ts";

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

describeInBrowser("for each person and device", () => {
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
      document.adoptedStyleSheets.push(sheet);
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
    await wholePage(page);
    await page.locator("meter").waitFor();
    const edges = await page.evaluate<string[]>(`[...document.querySelectorAll("main .button, meter")]
      .filter((one) => getComputedStyle(one).borderTopColor === getComputedStyle(document.body).backgroundColor
        || getComputedStyle(one).borderTopStyle === "none")
      .map((one) => one.textContent || one.tagName)`);
    expect(edges).toEqual([]);
    // The page that one is on is told by more than a colour that is not there any more.
    const links = await page.evaluate<string[]>(`[...document.querySelectorAll(".pages a")]
      .map((link) => getComputedStyle(link).backgroundColor)`);
    expect(new Set(links).size).toBe(2);
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

  test("a focus in the bar at the top does not scroll the page", async () => {
    const screen = await openScreen({ browser: { viewport: { width: 768, height: 500 } } });
    const { page } = screen;
    await makeKeys(screen, ...Array.from({ length: 12 }, (_, index) => `key-${index}`));
    await screen.signIn();
    for (const [from, key] of [
      [".pages li:last-child a", "Tab"],
      [".title-action button", "Shift+Tab"],
    ] as const) {
      await page.evaluate(`document.querySelector(${JSON.stringify(from)}).focus({ preventScroll: true })`);
      await page.evaluate("scrollTo(0, 400)");
      await page.keyboard.press(key);
      expect(await focused(page)).toBe("Account Oowner@localhost");
      expect(await page.evaluate("scrollY")).toBe(400);
    }
  });

  test("from 640 px on the bar is one row, however long the names are; on a phone it is two", async () => {
    const screen = await openScreen({ browser: { hasTouch: true } });
    const { page, keyrun } = screen;
    await screen.signIn();
    const rows = () =>
      page.evaluate<{ height: number; middles: number[]; rights: number[] }>(`(() => {
        const bar = document.querySelector(".frame-header");
        const boxes = [...bar.children].map((one) => one.getBoundingClientRect());
        return {
          height: bar.offsetHeight,
          middles: [...new Set(boxes.map(({ top, height }) => Math.round(top + height / 2)))],
          rights: boxes.map(({ left, right }, index) => right - (boxes[index + 1]?.left ?? innerWidth)),
        };
      })()`);
    const check = async (name: string) => {
      for (const width of [640, 700, 768, 1023]) {
        await page.setViewportSize({ width, height: 860 });
        const { height, middles, rights } = await rows();
        expect({ name, width, height, rows: middles.length }).toEqual({ name, width, height: 60, rows: 1 });
        expect(Math.max(...rights)).toBeLessThanOrEqual(0);
        expect(await tooWide(page)).toEqual([]);
      }
      for (const width of [320, 412, 639]) {
        await page.setViewportSize({ width, height: 860 });
        const { height, middles } = await rows();
        expect({ name, width, height, rows: middles.length }).toEqual({ name, width, height: 85, rows: 2 });
        expect(await tooWide(page)).toEqual([]);
      }
    };
    await check("one team");
    await keyrun.teams.createTeam({ team: { id: "acme", displayName: "W".repeat(64) } });
    await keyrun.teams.addMember({ teamId: "acme", email: "owner@localhost" });
    await page.reload();
    await page.getByRole("combobox", { name: "Team" }).selectOption("acme");
    await check("several teams");
  });

  test("in a low window, such as one at 400 % zoom, the bar makes room for the content", async () => {
    const screen = await openScreen({ browser: { viewport: { width: 320, height: 256 } } });
    const { page } = screen;
    await screen.signIn();
    await page.evaluate("scrollTo(0, 200)");
    const { y, height } = (await page.locator(".frame-header").boundingBox())!;
    expect(y + height).toBeLessThan(0);
  });
});
