import { expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { figure } from "../harness/campaigns.ts";
import { holdTimers } from "./held-timers.ts";
import { focused } from "./page-probes.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { loseCalls } from "./screen-calls.ts";
import { clipboard, createByHand, makeKeys, rowOf } from "./screen-flows.ts";
import { expectAccessible, expectWellMade } from "./screen-state.ts";

/** Signs out in another tab of the same browser. */
async function signOutElsewhere({ context, url }: Screen): Promise<void> {
  const other = await context.newPage();
  await other.goto(url("/"));
  await other.getByRole("button", { name: /^Account/ }).click();
  await other.getByRole("button", { name: "Sign out" }).click();
  await other.getByRole("heading", { name: "You are signed out" }).waitFor();
  await other.close();
}

/** Waits until the stream of changes is open, so that changes from now on come by the stream. */
async function signInAndWatch({ page, signIn }: Screen): Promise<void> {
  const opened = page.waitForResponse("**/keyrun.v1.KeyService/WatchKeys");
  await signIn();
  await opened;
}

describeInBrowser("changes by others, as they happen", () => {
  test("a key that is created elsewhere appears, and the focus stays where it was", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, "first");
    await page.clock.install();
    await signInAndWatch(screen);
    await page.getByRole("button", { name: "Revoke first" }).focus();
    await makeKeys(screen, "second");
    await rowOf(page, "second").waitFor();
    expect(await page.getByRole("rowheader").allTextContents()).toEqual(["second", "first"]);
    await expect.poll(() => focused(page)).toBe("Revoke first");
    await page.getByText("2 active keys (up to 50)").waitFor();
  });

  test("a key that is used shows that by the stream, before the list is read again", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { value } = await keyrun.newKey("demo");
    await signInAndWatch(screen);
    let reads = 0;
    page.on("request", (request) => void (request.url().endsWith(".KeyService/ListKeys") && reads++));
    await page.getByText("Never used").waitFor();
    reads = 0;
    const usedMs = performance.now();
    await keyrun.keys.verifyKey({ value });
    await page.getByText("Never used").waitFor({ state: "detached" });
    figure("a used key shows that after", performance.now() - usedMs, "ms");
    expect(reads).toBe(0);
    const lastUsed = page.getByRole("row").nth(1).getByRole("cell").nth(2);
    expect(await lastUsed.textContent()).toMatch(/^(just now|\d+ seconds? ago)/);
  });

  test("a key that is revoked elsewhere says by whom, is announced politely, and goes after five seconds", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const [keyId] = await makeKeys(screen, "ci-deploy", "other");
    const pass = await holdTimers(screen, bounds.departingRowMs, bounds.statusMs);
    await signInAndWatch(screen);
    await keyrun.keys.revokeKey({ teamId: "demo", keyId: keyId! });
    await rowOf(page, "ci-deploy").getByText("Revoked by the service token just now").waitFor();
    await page
      .getByRole("status")
      .getByText("Key ci-deploy was revoked by the service token")
      .waitFor({ state: "attached" });
    await pass();
    await rowOf(page, "ci-deploy").waitFor({ state: "detached" });
    await page.getByText("1 active key (up to 50), 1 past").waitFor();
  });

  test("a row that says who revoked its key stays for five seconds, even if the list is read again without it", async () => {
    const screen = await openScreen();
    const { page, keyrun, context } = screen;
    const pass = await holdTimers(screen, bounds.departingRowMs);
    const [, keyId] = await makeKeys(screen, "first", "ci-deploy", "last");
    await signInAndWatch(screen);
    await keyrun.keys.revokeKey({ teamId: "demo", keyId: keyId! });
    await rowOf(page, "ci-deploy").getByText("Revoked by the service token just now").waitFor();
    await expectWellMade(page, "revoked-elsewhere");
    await context.setOffline(true);
    await page.getByText("Live updates paused, retrying").waitFor();
    // This change is not on the page's stream. When it shows, the list was read.
    await makeKeys(screen, "newest");
    await context.setOffline(false);
    await rowOf(page, "newest").waitFor();
    const rows = page.getByRole("rowheader");
    expect(await rows.allTextContents()).toEqual(["newest", "last", "ci-deployRevoked", "first"]);
    await rowOf(page, "ci-deploy").getByText("Revoked by the service token just now").waitFor();
    await pass();
    await expect.poll(() => rows.allTextContents()).toEqual(["newest", "last", "first"]);
  });

  test("a key that is revoked elsewhere while its revoke dialog is open changes the dialog", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const [keyId] = await makeKeys(screen, "ci-deploy");
    await signInAndWatch(screen);
    await page.getByRole("button", { name: "Revoke ci-deploy" }).click();
    await keyrun.keys.revokeKey({ teamId: "demo", keyId: keyId! });
    const dialog = page.getByRole("alertdialog", { name: "Key ci-deploy is revoked" });
    await dialog.getByText(/^Revoked by the service token/).waitFor();
    expect(await dialog.getByRole("button", { name: "Revoke key" }).count()).toBe(0);
    await expectAccessible(page);
    await dialog.getByText("Close", { exact: true }).click();
    await expect.poll(() => focused(page)).toBe("API keys");
  });

  test("signed out elsewhere: the page hides what it held and leads back here, and a new key in a dialog stays", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await holdTimers(screen, bounds.copiedMs);
    await signInAndWatch(screen);
    const { dialog, value } = await createByHand(page, "ci-deploy");
    await signOutElsewhere(screen);
    await page.getByText("You were signed out").waitFor();
    expect((await dialog.locator("#secret-key").inputValue()) === value).toBe(true);
    const shown = await page.locator("body").innerText();
    expect(shown).not.toMatch(/owner@localhost|Demo|svc_.{4}…/);
    expect(await page.getByRole("row").count()).toBe(0);
    await dialog.getByRole("button", { name: "Copy API key" }).click();
    await dialog.getByText("API key copied").waitFor({ state: "attached" });
    await dialog.getByRole("button", { name: "Done" }).click();
    await expectWellMade(page, "signed-out-banner");
    await page.getByRole("link", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Sign in to Keyrun" }).waitFor();
    expect(new URL(page.url()).searchParams.get("return_to")).toBe("/settings/team/demo/api-keys");
  });

  test("without a network a bar says so, and the list is read again once the network is back", async () => {
    const screen = await openScreen();
    const { page, context } = screen;
    await makeKeys(screen, "first");
    await signInAndWatch(screen);
    await context.setOffline(true);
    const bar = page.getByText("Live updates paused, retrying");
    await bar.waitFor();
    await makeKeys(screen, "second");
    await expectWellMade(page, "offline");
    expect(await rowOf(page, "second").count()).toBe(0);
    await context.setOffline(false);
    await bar.waitFor({ state: "detached" });
    await rowOf(page, "second").waitFor();
  });

  test("while the stream is lost the list is read every 15 s, and when the page comes into view", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await page.clock.install();
    await loseCalls(page, "KeyService/WatchKeys");
    await screen.signIn();
    await page.getByText("Live updates paused, retrying").waitFor();
    await makeKeys(screen, "first");
    await page.clock.fastForward(15_000);
    await rowOf(page, "first").waitFor();
    await makeKeys(screen, "second");
    await page.evaluate("window.dispatchEvent(new Event('visibilitychange'))");
    await rowOf(page, "second").waitFor();
  });
});
