import { expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { holdTimers } from "./held-timers.ts";
import { focused } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { holdCalls, loseCalls } from "./screen-calls.ts";
import { makeKeys, rowOf } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

describeInBrowser("revoking a key", () => {
  test("the dialog says what revoking means, warns of a key in use, and Cancel has the focus and changes nothing", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { key, value } = await keyrun.keys.createKey({ teamId: "demo", label: "ci-deploy" });
    await makeKeys(screen, "idle");
    await screen.run(value);
    await screen.signIn();
    await page.getByRole("button", { name: "Revoke ci-deploy" }).click();
    const dialog = page.getByRole("alertdialog", { name: "Revoke ci-deploy?" });
    await dialog.getByText(/^Last used (just now|\d+ (?:second|minute)s? ago) · .*\d:\d\d:\d\d/).waitFor();
    expect(await dialog.textContent()).toContain(
      `${key!.redactedValue} stops working immediately and permanently. Anything still using it gets 401. This can’t be undone.`,
    );
    await expect.poll(() => focused(page)).toBe("Cancel");
    await expectWellMade(page, "revoke");
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("Revoke ci-deploy");
    expect((await screen.run(value)).status).toBe(200);
    await page.getByRole("button", { name: "Revoke idle" }).click();
    expect(await page.getByRole("alertdialog").textContent()).not.toContain("Last used");
  });

  test("the row goes, and the focus moves to the next row's button, or to the heading after the last row", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, "third", "second", "first");
    await holdTimers(screen, bounds.statusMs);
    await screen.signIn();
    for (const [label, next] of [
      ["first", "Revoke second"],
      ["third", "API keys"],
      ["second", "API keys"],
    ] as const) {
      await page.getByRole("button", { name: `Revoke ${label}` }).click();
      await page.getByRole("button", { name: "Revoke key" }).click();
      await page.getByRole("status").getByText(`Key ${label} revoked`).waitFor();
      await expect.poll(() => focused(page)).toBe(next);
      await expect.poll(() => rowOf(page, label).count()).toBe(0);
    }
    await page.getByRole("heading", { name: "No API keys yet" }).waitFor();
  });

  test("a failure stays in the dialog, with a button that tries again", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { value } = await keyrun.keys.createKey({ teamId: "demo", label: "ci-deploy" });
    await screen.signIn();
    const find = await loseCalls(page, "KeyService/RevokeKey");
    await page.getByRole("button", { name: "Revoke ci-deploy" }).click();
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByRole("alert").getByText("Couldn’t revoke the key. Keyrun can’t be reached.").waitFor();
    expect((await screen.run(value)).status).toBe(200);
    await expectWellMade(page, "revoke-failed");
    await find();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("alertdialog").waitFor({ state: "detached" });
    expect((await screen.run(value)).status).toBe(401);
  });

  test("while a key is revoked the dialog says so and stays", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    const release = await holdCalls(page, "KeyService/RevokeKey");
    await page.getByRole("button", { name: "Revoke ci-deploy" }).click();
    await page.getByRole("button", { name: "Revoke key" }).click();
    const pending = page.getByRole("button", { name: "Revoking…" });
    expect(await pending.getAttribute("aria-disabled")).toBe("true");
    await page.keyboard.press("Escape");
    expect(await pending.count()).toBe(1);
    release();
    await rowOf(page, "ci-deploy").waitFor({ state: "detached" });
  });

  test("for a key that someone else had revoked before, the dialog says who did it and when", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const [keyId] = await makeKeys(screen, "ci-deploy");
    await loseCalls(page, "KeyService/WatchKeys");
    await screen.signIn();
    await page.getByRole("button", { name: "Revoke ci-deploy" }).click();
    await keyrun.keys.revokeKey({ teamId: "demo", keyId: keyId! });
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page
      .getByText(/^Revoked by the service token (just now|\d+ (?:second|minute)s? ago) · .*\d:\d\d:\d\d/)
      .waitFor();
    await page.getByRole("alertdialog", { name: "Key ci-deploy is revoked" }).waitFor();
    await page.getByRole("alertdialog").getByText("Close", { exact: true }).click();
    await expect.poll(() => rowOf(page, "ci-deploy").count()).toBe(0);
  });
});
