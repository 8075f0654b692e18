import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { focused } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { loseCalls } from "./screen-calls.ts";
import { expectWellMade } from "./screen-state.ts";

const partFiles = "**/assets/parts-*";

describeInBrowser("the lazy parts", () => {
  test("are loaded before one is needed, whatever else fails: then a dialog opens at once, without a network", async () => {
    const screen = await openScreen();
    const { page, context, keyrun } = screen;
    // Without a list there is no "Try it", which would load the parts itself.
    await loseCalls(page, "KeyService/ListKeys");
    const fetched = page.waitForEvent("requestfinished", (request) =>
      /\/parts-[^/]+\.js$/.test(request.url()),
    );
    await page.goto((await keyrun.sessions.createSignInLink({})).url);
    await page.waitForURL("**/settings/team/demo/api-keys");
    await page.getByText("Couldn’t load API keys.").waitFor();
    await fetched;
    await context.setOffline(true);
    await page.getByRole("button", { name: "Create new secret key" }).click();
    await expect.poll(() => focused(page)).toBe("Label (optional)");
  });

  test("say so when they can't be loaded, and trying again opens the dialog that was asked for", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await page.route(partFiles, (route) => route.abort());
    await page.goto((await screen.keyrun.sessions.createSignInLink({})).url);
    await page.getByRole("alert").getByText("Couldn’t load this part of the page.").waitFor();
    await expectWellMade(page, "parts-failed");
    await page.unroute(partFiles);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.waitForURL("**/settings/team/demo/api-keys");
    await page.getByRole("tab", { name: "curl" }).waitFor();

    await page.route(partFiles, (route) => route.abort());
    await page.reload();
    await page.getByRole("button", { name: "Create new secret key" }).click();
    const dialog = page.getByRole("dialog", { name: "Create new secret key" });
    await dialog.getByRole("alert").waitFor();
    await expectWellMade(page, "dialog-failed");
    // A reload always helps, even after an upgrade: it loads the page of the current Keyrun.
    expect(await dialog.getByRole("link", { name: "load the page again" }).getAttribute("href")).toBe(
      page.url(),
    );
    await page.unroute(partFiles);
    await dialog.getByRole("button", { name: "Try again" }).click();
    await page.getByLabel("Label (optional)").waitFor();
    expect(await focused(page)).toBe("Label (optional)");
    // The page below has loaded the parts as well.
    await expect.poll(() => page.getByRole("tab", { name: "curl" }).count()).toBe(1);
  });

  test("move nothing when they are loaded, on a window of any width", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    for (const width of [320, 768, 1280]) {
      await page.setViewportSize({ width, height: 860 });
      let release = () => {};
      const released = new Promise<void>((resolve) => {
        release = resolve;
      });
      await page.route(partFiles, async (route) => {
        await released;
        await route.continue();
      });
      await page.reload();
      await page.locator(".try-it-place").waitFor();
      const before = await heightOf(page);
      release();
      await page.getByRole("combobox", { name: "App" }).waitFor();
      expect({ width, height: await heightOf(page) }).toEqual({ width, height: before });
      await page.unroute(partFiles);
    }
  });
});

async function heightOf(page: Page): Promise<number | undefined> {
  return (await page.locator(".try-it-body").boundingBox())?.height;
}
