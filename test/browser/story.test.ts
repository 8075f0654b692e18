import { expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { holdTimers } from "./held-timers.ts";
import { readClipboard } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { clipboard, createByHand } from "./screen-flows.ts";

describeInBrowser("the life of a key, as a person sees it", () => {
  test("after sign-in by a one-time link, a key is created, copied, tried, used, and refused once it is revoked", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await holdTimers(screen, bounds.copiedMs, bounds.statusMs);
    await screen.signIn();
    expect(page.url()).toBe(screen.url("/settings/team/demo/api-keys"));

    const { dialog, value: shown } = await createByHand(page, "  ci-deploy ");
    expect(/^svc_[0-9a-hjkmnp-tv-z]{24}\.[0-9A-Za-z]{49}$/.test(shown)).toBe(true);
    await dialog.getByRole("button", { name: "Copy API key" }).click();
    await dialog.getByText("API key copied").waitFor({ state: "attached" });
    const copied = await readClipboard(page);
    expect(copied === shown).toBe(true);

    await dialog.getByRole("button", { name: "Send a test request" }).click();
    await dialog.getByText("200", { exact: true }).waitFor();
    expect(await dialog.locator(".answer").textContent()).toMatch(/"team";r=59;t=\d+.*"text":"hello"/s);
    await dialog.getByRole("button", { name: "Done" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByText("Key ci-deploy created").waitFor();

    const row = page.getByRole("row", { name: /ci-deploy/ });
    await row.getByText("New", { exact: true }).waitFor();
    expect((await screen.run(copied)).status).toBe(200);
    await page.reload();
    await expect
      .poll(() => row.locator("time").nth(1).textContent())
      .toMatch(/^(just now|\d+ (?:second|minute)s? ago)$/);

    await row.getByRole("button", { name: "Revoke ci-deploy" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Revoke key" }).click();
    await page.getByText("Key ci-deploy revoked").waitFor();
    const refused = await screen.run(copied);
    expect(refused.status).toBe(401);
    expect(await refused.json()).toMatchObject({ error: { code: "revoked_api_key" } });
    await expect.poll(() => row.count()).toBe(0);
  });
});
