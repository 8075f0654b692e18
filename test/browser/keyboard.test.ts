import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { holdTimers } from "./held-timers.ts";
import { firstFocuses, firstFocusListener, focused, readClipboard } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { clipboard, createByHand, wholePage } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

/** Presses Tab until the focus is back at its start or leaves the page. Returns each stop. */
async function tabThrough(page: Page): Promise<string[]> {
  const met: string[] = [];
  for (let presses = 0; presses < 40; presses++) {
    await page.keyboard.press("Tab");
    const name = await focused(page);
    if (name === "BODY" || name === met[0]) break;
    met.push(name);
  }
  return met;
}

/** Presses Tab until a control has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 40; presses++) {
    if ((await focused(page)) === name) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`Tab never came to ${name}.`);
}

describeInBrowser("by keyboard alone", () => {
  test("Tab goes through the page in reading order, and the skip link goes to the content", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await keyrun.keys.createKey({ teamId: "demo", label: "ci-deploy" });
    await screen.signIn();
    await wholePage(page);
    const met = await tabThrough(page);
    expect(met.map((name) => name.replace(/^curl -sS.*/, "the snippet"))).toEqual([
      ...["Skip to content", "Keyrun", "API keys", "Activity", "Account Oowner@localhost"],
      ...["Create new secret key", "Active", "ci-deploy", "Revoke ci-deploy", "Actions for ci-deploy"],
      ...["Try it", "Copy KEYRUN_URL", "Copy KEYRUN_API_KEY", "Run", "JSON input (optional)"],
      ...["curl", "App", "Copy snippet", "the snippet"],
      ...["API reference", "List of errors", "OpenAPI"],
    ]);
    await page.reload();
    await page.getByRole("rowheader").waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("Create new secret key");
  });

  test("a key is created, copied and revoked, and the focus is always where the next step is", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await holdTimers(screen, bounds.copiedMs);
    await screen.signIn();
    const { keyboard } = page;
    await tabTo(page, "Create new secret key");
    await keyboard.press("Enter");
    await expect.poll(() => focused(page)).toBe("Label (optional)");
    await keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe("Create new secret key");

    await keyboard.press("Enter");
    await keyboard.type("ci-deploy");
    await keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Save your key" });
    await dialog.waitFor();
    await expect.poll(() => focused(page)).toBe("Copy API key");
    await keyboard.press("Enter");
    await dialog.getByText("API key copied").waitFor({ state: "attached" });
    const key = await readClipboard(page);
    await dialog.getByRole("button", { name: "Send a test request" }).waitFor();
    // The dialog keeps the focus: from its last control Tab does not reach the page behind it.
    const met = await tabThrough(page);
    expect(met).toEqual(["Send a test request", "Done"]);
    await tabTo(page, "Done");
    await keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("Create new secret key");
    expect((await screen.run(key)).status).toBe(200);

    await tabTo(page, "Revoke ci-deploy");
    await keyboard.press("Enter");
    await expect.poll(() => focused(page)).toBe("Cancel");
    await keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe("Revoke ci-deploy");
    await keyboard.press("Enter");
    await tabTo(page, "Revoke key");
    await keyboard.press("Enter");
    await page.getByRole("alertdialog").waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("API keys");
    expect((await screen.run(key)).status).toBe(401);
  });

  test("the menu of a key is walked with the arrows, and each way out gives the focus back", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await keyrun.keys.createKey({ teamId: "demo", label: "ci-deploy" });
    await screen.signIn();
    await wholePage(page);
    const { keyboard } = page;
    const opener = "Actions for ci-deploy";
    await tabTo(page, opener);
    await keyboard.press("Enter");
    const menu = page.getByRole("menu", { name: opener });
    await expect.poll(() => focused(page)).toBe("Edit…");
    expect(await page.getByRole("button", { name: opener }).getAttribute("aria-expanded")).toBe("true");
    await expectWellMade(page, "key-menu");
    const met: string[] = [];
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "Home", "End"]) {
      await keyboard.press(key);
      met.push(await focused(page));
    }
    expect(met).toEqual(["Rotate…", "Revoke…", "Edit…", "Revoke…", "Edit…", "Revoke…"]);
    // What a hand does comes before the browser's word that the menu is closed.
    await page.evaluate(
      `document.querySelector("[aria-label='${opener}']")
        .addEventListener("focus", ({ target }) => {
          scheduler.postTask(() => target.click(), { priority: "user-blocking" });
        }, { once: true })`,
    );
    await keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe("Edit…");
    await keyboard.press("Escape");
    await menu.waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe(opener);
    for (const [presses, dialog] of [
      [0, "Edit ci-deploy"],
      [1, "Rotate ci-deploy"],
      [2, "Revoke ci-deploy?"],
    ] as const) {
      await page.getByRole("button", { name: opener }).focus();
      await keyboard.press("Enter");
      await expect.poll(() => focused(page)).toBe("Edit…");
      for (let press = 0; press < presses; press++) await keyboard.press("ArrowDown");
      await keyboard.press("Enter");
      await page.locator("dialog").getByRole("heading", { name: dialog }).waitFor();
      await keyboard.press("Escape");
      await page.locator("dialog").waitFor({ state: "detached" });
      await expect.poll(() => focused(page)).toBe(presses === 2 ? "Revoke ci-deploy" : opener);
    }
    // On a phone the menu alone leads to the revocation, and from there to the next key.
    await page.setViewportSize({ width: 320, height: 700 });
    await page.getByRole("button", { name: opener }).click();
    await menu.getByRole("menuitem", { name: "Revoke…" }).click();
    await expect.poll(() => focused(page)).toBe("Cancel");
    await keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe(opener);
    await page.getByRole("button", { name: opener }).click();
    await page.getByRole("heading", { level: 1 }).click();
    await menu.waitFor({ state: "detached" });
  });

  test("a dialog has the focus as soon as it opens, so that a key pressed then reaches it", async () => {
    const screen = await openScreen();
    const { page, context } = screen;
    await context.addInitScript({ content: firstFocusListener });
    await screen.signIn();
    await wholePage(page);
    const { dialog } = await createByHand(page, "ci-deploy");
    await dialog.getByRole("button", { name: "Done" }).click();
    await dialog.getByRole("button", { name: "Close anyway" }).click();
    await page.getByRole("button", { name: "Revoke ci-deploy" }).click();
    await page.getByRole("alertdialog").waitFor();
    expect(await firstFocuses(page)).toEqual(["key-label", "Copy API key", "Cancel"]);
  });

  test("the tabs of a snippet are one stop, and the arrows, Home and End choose", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    await wholePage(page);
    await tabTo(page, "curl");
    const chosen = () => page.getByRole("tab", { selected: true }).textContent();
    for (const [key, language] of [
      ["ArrowRight", "JavaScript"],
      ["End", "Python"],
      ["ArrowRight", "curl"],
      ["ArrowLeft", "Python"],
      ["Home", "curl"],
    ] as const) {
      await page.keyboard.press(key);
      expect([await chosen(), await focused(page)]).toEqual([language, language]);
    }
  });

  test("the account menu opens, closes with Esc, and gives the focus back", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    await tabTo(page, "Account Oowner@localhost");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    await page.keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("System");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Sign out" }).waitFor({ state: "hidden" });
    await expect.poll(() => focused(page)).toBe("Account Oowner@localhost");
  });
});
