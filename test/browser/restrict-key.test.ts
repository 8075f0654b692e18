import { expect, test } from "vitest";
import { focused } from "./page-probes.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { openCreateDialog, rowOf } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

const teamId = "demo";

async function addApps({ keyrun }: Screen): Promise<void> {
  const backend = { kind: { case: "http", value: { url: "http://127.0.0.1:9/run" } } } as const;
  await keyrun.apps.createApp({ app: { id: "shout", displayName: "Shout it out", backend } });
}

describeInBrowser("restricting a key", () => {
  test("a key is restricted to apps and to requests a minute by keyboard, and its details tell", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await addApps(screen);
    await screen.signIn();
    await openCreateDialog(page);
    await page.keyboard.type("ci-deploy");
    await page.keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("Expires");
    await page.keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("RestrictEvery app, the team’s limit");
    await page.keyboard.press("Enter");
    await page.getByRole("group", { name: "Apps" }).getByText("With none chosen").waitFor();
    await page.keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("Echo echo".replace(" ", ""));
    await page.keyboard.press("Space");
    const rate = page.getByLabel("Requests a minute (optional)");
    await rate.fill("10");
    await page.getByText("1 app, 10 a minute").waitFor();
    await page.getByLabel("Requests a day or a month (optional)").fill("1000");
    await page.getByText("1 app, 10 a minute, 1000 a month").waitFor();
    await page.getByLabel("Period of the quota").selectOption("a day");
    await page.getByText("1 app, 10 a minute, 1000 a day").waitFor();
    await expectWellMade(page, "create-restricted");
    await rate.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Save your key" });
    await dialog.getByRole("button", { name: "Send a test request" }).click();
    await dialog.getByRole("status").getByText("It works").waitFor();
    const value = await dialog.locator("#secret-key").inputValue();
    const { keys } = await keyrun.keys.listKeys({ teamId });
    expect(keys[0]).toMatchObject({ label: "ci-deploy", appIds: ["echo"], requestsPerMinute: 10 });
    const answer = await fetch(screen.url("/api/apps/shout/run"), {
      method: "POST",
      headers: { authorization: `Bearer ${value}`, "content-type": "application/json" },
      body: JSON.stringify({ text: "hello" }),
    });
    expect(answer.status).toBe(403);
    await dialog.getByRole("button", { name: "Done" }).click();
    await dialog.getByRole("button", { name: "Close anyway" }).click();
    await rowOf(page, "ci-deploy").getByText("Restricted", { exact: true }).waitFor();
    await page.getByRole("button", { name: "ci-deploy", exact: true }).click();
    const facts = page.getByRole("dialog", { name: "Key details" }).getByRole("definition");
    await facts.getByText("10 requests a minute").waitFor();
    await facts.getByText("1,000 requests a day of UTC").waitFor();
    await facts.getByText("echo", { exact: true }).waitFor();
    await expectWellMade(page, "details-restricted");
  });

  test("a limit over the plan's is refused at its field, which opens and gets the focus", async () => {
    const screen = await openScreen({ settings: { KEYRUN_PLAN_LIMITS: "free=60" } });
    const { page, keyrun } = screen;
    await screen.signIn();
    await openCreateDialog(page);
    const summary = page.locator(".restrict > summary");
    await summary.click();
    const field = page.getByLabel("Requests a minute (optional)");
    await field.fill("61");
    await summary.click();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByText("Enter a whole number from 1 to 60, the plan’s limit").waitFor();
    await expect.poll(() => focused(page)).toBe("Requests a minute (optional)");
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    expect(await field.getAttribute("aria-describedby")).toBe("key-rate-problem key-rate-hint");
    await expectWellMade(page, "create-restrict-refused");
    await field.fill("60");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Save your key" }).waitFor();
    expect((await keyrun.keys.listKeys({ teamId })).keys[0]!.requestsPerMinute).toBe(60);
  });

  test("a quota that is none is refused at its field", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    await openCreateDialog(page);
    await page.locator(".restrict > summary").click();
    const field = page.getByLabel("Requests a day or a month (optional)");
    await field.fill("0");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByText("Enter a whole number from 1 to 1000000000000").waitFor();
    await expect.poll(() => focused(page)).toBe("Requests a day or a month (optional)");
    expect(await field.getAttribute("aria-invalid")).toBe("true");
  });

  test("the test request of a key for one app runs that app", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await addApps(screen);
    await screen.signIn();
    await openCreateDialog(page);
    await page.locator(".restrict > summary").click();
    await page.getByLabel("Shout it out").check();
    await page.getByRole("button", { name: "Create key" }).click();
    const dialog = page.getByRole("dialog", { name: "Save your key" });
    await dialog.getByText("Runs shout and uses one request").waitFor();
  });
});
