import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { everythingKept, focused, readClipboard } from "./page-probes.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { holdCalls, loseAnswers } from "./screen-calls.ts";
import { clipboard, goBackInVain, makeKeys, rowOf } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

const teamId = "demo";

/** Opens the dialog that rotates a key, from its details. */
async function openRotate({ page }: Screen, label: string): Promise<void> {
  await page.getByRole("button", { name: label, exact: true }).first().click();
  await page.getByRole("button", { name: "Rotate…" }).click();
  await page.getByRole("dialog", { name: `Rotate ${label}` }).waitFor();
}

describeInBrowser("rotating a key", () => {
  test("by keyboard: the new key is shown once, both work, each names the other, and the old one tells its end", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page, keyrun } = screen;
    const { key, value: oldValue } = await keyrun.keys.createKey({ teamId, label: "ci-deploy" });
    await screen.run(oldValue);
    await screen.signIn();
    await openRotate(screen, "ci-deploy");
    await expect.poll(() => focused(page)).toBe("The old key keeps working");
    await page.getByText(/^Both work until .*\d/).waitFor();
    await expectWellMade(page, "rotate");
    await page.getByRole("button", { name: "Rotate key" }).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Save your key" });
    await expect.poll(() => focused(page)).toBe("Copy API key");
    await dialog.getByText(/^The old key .* works until .*, in 1 day\.$/).waitFor();
    await expectWellMade(page, "rotated");
    for (let times = 0; times < 3; times++) await page.keyboard.press("Escape");
    await dialog.getByText("Close without copying?").waitFor();
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    const value = await readClipboard(page);
    expect((await everythingKept(page)).includes(value.slice(value.indexOf(".") + 1))).toBe(false);
    await page.getByText("Key ci-deploy rotated").waitFor();
    for (const one of [value, oldValue]) expect((await screen.run(one)).status).toBe(200);
    await page.getByText("2 active keys (up to 50, not counting 1 that was replaced)").waitFor();
    const rows = page.getByRole("row").filter({ hasText: "ci-deploy" });
    await rows.first().getByText("New", { exact: true }).waitFor();
    await rows.last().getByText("Replaced", { exact: true }).waitFor();
    await rows.last().getByText("in 1 day", { exact: true }).waitFor();
    await expect.poll(() => focused(page)).toBe("ci-deploy");
    await rows.last().getByRole("button", { name: "ci-deploy", exact: true }).click();
    await page.getByRole("term").getByText("Replaced by").waitFor();
    expect(await page.getByRole("button", { name: "Rotate…" }).count()).toBe(0);
    await page
      .getByRole("definition")
      .getByText(/\((just now|\d+ (?:second|minute)s? ago)\)/)
      .first()
      .waitFor();
    await expectWellMade(page, "replaced-details");
    const [newKey] = (await keyrun.keys.listKeys({ teamId })).keys;
    await page.getByRole("definition").getByRole("button", { name: newKey!.redactedValue }).click();
    await page.getByRole("term").getByText("Replaces").waitFor();
    await expect.poll(() => focused(page)).toBe("Close");
    await page.getByRole("definition").getByRole("button", { name: key!.redactedValue }).click();
    await page.getByRole("term").getByText("Replaced by").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Revoke ci-deploy", exact: true }).waitFor();
    await page.getByRole("button", { name: "Revoke ci-deploy, the old key", exact: true }).waitFor();
  });

  test("without an overlap the old key is revoked at once, after a warning, and no one else is blamed", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { value } = await keyrun.keys.createKey({ teamId, label: "ci-deploy" });
    await screen.run(value);
    await screen.signIn();
    await openRotate(screen, "ci-deploy");
    await page.getByLabel("The old key keeps working").selectOption("Not at all");
    await page.getByText("It is revoked at once. Anything still using it gets 401.").waitFor();
    await page.getByText(/^Last used (just now|\d+ (?:second|minute)s? ago)/).waitFor();
    await expectWellMade(page, "rotate-at-once");
    await page.getByRole("button", { name: "Rotate key" }).click();
    await page.getByText(/^The old key .* is revoked\.$/).waitFor();
    expect((await screen.run(value)).status).toBe(401);
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("button", { name: "Close anyway" }).click();
    await expect.poll(() => page.getByRole("rowheader").count()).toBe(1);
    expect(await page.getByText("was revoked by").count()).toBe(0);
  });

  test("while a key is rotated, Back stays, so that the new value is not lost", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    const nav = page.getByRole("navigation", { name: "Team settings" });
    await nav.getByRole("link", { name: "Activity" }).click();
    await nav.getByRole("link", { name: "API keys" }).click();
    await openRotate(screen, "ci-deploy");
    const release = await holdCalls(page, "KeyService/RotateKey");
    await page.getByLabel("The old key keeps working").selectOption("Not at all");
    await page.getByRole("button", { name: "Rotate key" }).click();
    await page.getByRole("button", { name: "Rotating…" }).waitFor();
    await goBackInVain(page);
    expect(page.url()).toBe(screen.url(`/settings/team/${teamId}/api-keys`));
    release();
    await page.getByRole("dialog", { name: "Save your key" }).locator("#secret-key").waitFor();
  });

  test("a key that is due sooner ends then, and one whose predecessor works must end at once", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const expireTime = timestampFromMs(Date.now() + 2 * 60 * 60_000);
    const { key } = await keyrun.keys.createKey({ teamId, label: "first", expireTime });
    await makeKeys(screen, "other");
    await keyrun.keys.rotateKey({ teamId, keyId: key!.id, overlap: { seconds: 3_600n } });
    await screen.signIn();
    await openRotate(screen, "first");
    const choice = page.getByLabel("The old key keeps working");
    expect(await choice.locator("option").allTextContents()).toEqual(["Not at all"]);
    await page.getByText("The key that it replaced still works, so this one must end at once.").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Rotate…" }).waitFor();
    await page.keyboard.press("Escape");
    await rowOf(page, "other").waitFor();
  });

  test("an answer lost on its way: says that the new key exists, and revokes it", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    await openRotate(screen, "ci-deploy");
    const find = await loseAnswers(page, "KeyService/RotateKey");
    await page.getByRole("button", { name: "Rotate key" }).click();
    await page.getByText("The new key was made but its secret did not reach this browser.").waitFor();
    await expectWellMade(page, "rotate-lost");
    await find();
    await page.getByRole("button", { name: "Revoke", exact: true }).click();
    await page.getByRole("dialog", { name: "Key details" }).waitFor();
    const { keys } = await keyrun.keys.listKeys({ teamId, showRevoked: true });
    expect(keys.map(({ revokeTime }) => revokeTime !== undefined)).toEqual([true, false]);
  });
});
