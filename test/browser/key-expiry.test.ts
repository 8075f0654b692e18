import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Request } from "playwright-core";
import { beforeEach, expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { untilHourHasRoom } from "../harness/hour-border.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { holdTimers } from "./held-timers.ts";
import { focused } from "./page-probes.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { loseCalls } from "./screen-calls.ts";
import { makeKeys, openCreateDialog, rowOf } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

const teamId = "demo";
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

/** Creates a key that expires, as an internal service would. */
async function makeKeyUntil({ keyrun }: Screen, label: string, expireMs: number): Promise<void> {
  await keyrun.keys.createKey({ teamId, label, expireTime: timestampFromMs(expireMs) });
}

describeInBrowser("the expiry of a key", () => {
  // What the page and the test call a day is one.
  beforeEach(untilHourHasRoom, 300_000);

  test.each([
    ["In 30 days", 30],
    ["In 90 days", 90],
    ["In 365 days", 365],
  ])("%s: the dialog says until which day, and the row tells it", async (words, days) => {
    const screen = await openScreen({ browser: { locale: "en-GB", timezoneId: "UTC" } });
    const { page, keyrun } = screen;
    await screen.signIn();
    await openCreateDialog(page);
    await page.getByLabel("Label (optional)").fill("ci-deploy");
    await page.getByLabel("Expires").selectOption(words);
    const endMs = Date.now() + days * dayMs;
    const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" }).format(endMs);
    await page.getByText(`The key works until ${day}.`).waitFor();
    if (days === 90) await expectWellMade(page, "create-expiry");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("dialog", { name: "Save your key" }).waitFor();
    const { keys } = await keyrun.keys.listKeys({ teamId });
    expect(Math.abs(timestampMs(keys[0]!.expireTime!) - endMs)).toBeLessThan(10 * minuteMs);
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("button", { name: "Close anyway" }).click();
    await rowOf(page, "ci-deploy").getByText(`in ${days} days`).waitFor();
    expect(await page.locator(".soon").count()).toBe(0);
  });

  test("a day is chosen at the field, which says why a day is refused, and counts to its end", async () => {
    const screen = await openScreen({ browser: { timezoneId: "America/New_York" } });
    const { page, keyrun } = screen;
    await screen.signIn();
    await openCreateDialog(page);
    await page.getByLabel("Expires").selectOption("On a date…");
    const submit = page.getByRole("button", { name: "Create key" });
    await submit.click();
    await page.getByText("Choose a day.").waitFor();
    await expect.poll(() => focused(page)).toBe("Last day");
    const field = page.getByLabel("Last day");
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    expect(await field.getAttribute("aria-describedby")).toBe("key-expiry-problem key-expiry-hint");
    await field.fill("2020-01-01");
    await page.getByText("This day is over. Choose a later one.").waitFor();
    await field.fill("2999-01-01");
    await page.getByText("Choose a day within the next ten years.").waitFor();
    await expectWellMade(page, "create-expiry-refused");
    const day = new Date(Date.now() + 40 * dayMs).toISOString().slice(0, 10);
    await field.fill(day);
    await submit.click();
    await page.getByRole("dialog", { name: "Save your key" }).waitFor();
    const { keys } = await keyrun.keys.listKeys({ teamId });
    const end = new Intl.DateTimeFormat("sv-SE", {
      dateStyle: "short",
      timeStyle: "medium",
      timeZone: "America/New_York",
    }).format(timestampMs(keys[0]!.expireTime!));
    expect(end).toBe(`${day} 23:59:59`);
  });

  test("the last 14 days are marked, in words and with a sign, and a past key says how it ended", async () => {
    const clock = createManualClock({ monotonicMs: 0, unixMs: Date.now() });
    const screen = await openScreen({ clock });
    const { page } = screen;
    await makeKeyUntil(screen, "over", clock.unixMs() + 2 * minuteMs);
    await makeKeyUntil(screen, "near", clock.unixMs() + 10 * dayMs);
    await makeKeyUntil(screen, "far", clock.unixMs() + 100 * dayMs);
    await makeKeys(screen, "for ever");
    clock.stepWall(3 * minuteMs);
    await screen.signIn();
    await rowOf(page, "near").locator(".soon svg").waitFor();
    await rowOf(page, "near").getByText("in 10 days", { exact: true }).waitFor();
    expect(await rowOf(page, "far").locator(".soon").count()).toBe(0);
    await rowOf(page, "for ever").getByText("Never", { exact: true }).waitFor();
    expect(await rowOf(page, "over").count()).toBe(0);
    await page.getByText("3 active keys (up to 50), 1 past").waitFor();
    await expectWellMade(page, "expiry-rows");
    await page.getByRole("radio", { name: "Past" }).check();
    await rowOf(page, "over").getByText("Expired", { exact: true }).waitFor();
    expect(await rowOf(page, "over").getByRole("button").allTextContents()).toEqual(["over"]);
    await expectWellMade(page, "past-rows");
    await page.getByRole("radio", { name: "Active" }).check();
    await page.getByRole("button", { name: "near", exact: true }).click();
    await page.getByRole("term").getByText("Expires").waitFor();
    await expectWellMade(page, "expiry-details");
  });

  test("without a stream, a key that expires while the page is open turns Expired, is announced, and goes", async () => {
    const clock = createManualClock({ monotonicMs: 0, unixMs: Date.now() });
    const screen = await openScreen({ clock });
    const { page } = screen;
    await loseCalls(page, "KeyService/WatchKeys");
    await makeKeyUntil(screen, "ci-deploy", clock.unixMs() + 5 * minuteMs);
    await makeKeys(screen, "other");
    await page.clock.install();
    const pass = await holdTimers(screen, bounds.departingRowMs, bounds.statusMs);
    await screen.signIn();
    await page.getByText("Live updates paused, retrying").waitFor();
    await page.getByRole("button", { name: "ci-deploy", exact: true }).click();
    await page.getByRole("button", { name: "Revoke key…" }).waitFor();
    clock.stepWall(6 * minuteMs);
    await page.clock.fastForward(6 * minuteMs);
    await page.getByRole("term").getByText("Expired").waitFor();
    expect(await page.getByRole("button", { name: "Revoke key…" }).count()).toBe(0);
    await page.keyboard.press("Escape");
    await rowOf(page, "ci-deploy").getByText("Expired just now").waitFor();
    await page.getByRole("status").getByText("Key ci-deploy has expired").waitFor({ state: "attached" });
    await pass();
    await rowOf(page, "ci-deploy").waitFor({ state: "detached" });
    await page.getByText("1 active key (up to 50), 1 past").waitFor();
  });

  test("where the browser's clock is fast, a key that works stays, and Keyrun is asked every few seconds", async () => {
    const clock = createManualClock({ monotonicMs: 0, unixMs: Date.now() });
    const screen = await openScreen({ clock });
    const { page } = screen;
    await loseCalls(page, "KeyService/WatchKeys");
    await makeKeyUntil(screen, "ci-deploy", clock.unixMs() + 5 * minuteMs);
    const { keys } = await screen.keyrun.keys.listKeys({ teamId });
    let reads = 0;
    const isRead = (request: Request) => request.postData()?.includes(keys[0]!.id) ?? false;
    page.on("request", (request) => {
      if (isRead(request)) reads += 1;
    });
    const answered = page.waitForResponse((response) => isRead(response.request()));
    await page.clock.install();
    await screen.signIn();
    await page.getByText("Live updates paused, retrying").waitFor();
    // From here on, time passes in the page only as this test says.
    await page.clock.pauseAt(Date.now() + 6 * minuteMs);
    await (await answered).finished();
    for (let seconds = 0; seconds < 4; seconds++) await page.clock.fastForward(1_000);
    expect(reads).toBe(1);
    await rowOf(page, "ci-deploy").getByText("just now", { exact: true }).last().waitFor();
    expect(await page.getByText("has expired").count()).toBe(0);
    clock.stepWall(6 * minuteMs);
    await page.clock.fastForward(5_000);
    await page.getByRole("status").getByText("Key ci-deploy has expired").waitFor({ state: "attached" });
  });

  test("a change elsewhere shows at once, also in the details", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const [keyId] = await makeKeys(screen, "ci-deploy");
    const opened = page.waitForResponse("**/keyrun.v1.KeyService/WatchKeys");
    await screen.signIn();
    await opened;
    await page.getByRole("button", { name: "ci-deploy", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Key details" });
    await dialog.getByText("Never", { exact: true }).waitFor();
    await keyrun.keys.updateKey({
      ...{ teamId, keyId: keyId!, label: "renamed", updateMask: { paths: ["label", "expire_time"] } },
      expireTime: timestampFromMs(Date.now() + 3 * dayMs),
    });
    await dialog.getByRole("definition").getByText("renamed").waitFor();
    await dialog.getByText(/\(in 3 days\)/).waitFor();
    await page.keyboard.press("Escape");
    await rowOf(page, "renamed").getByText("in 3 days").waitFor();
  });

  test("a key is relabelled and ends sooner from its details, by keyboard, and never later", async () => {
    const screen = await openScreen({ browser: { timezoneId: "UTC" } });
    const { page, keyrun } = screen;
    await makeKeyUntil(screen, "ci-deploy", Date.now() + 60 * dayMs);
    await holdTimers(screen, bounds.statusMs);
    await screen.signIn();
    await page.getByRole("button", { name: "ci-deploy", exact: true }).click();
    await page.getByRole("button", { name: "Edit…" }).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Edit ci-deploy" });
    await expect.poll(() => focused(page)).toBe("Label (optional)");
    expect(await dialog.getByLabel("Expires").locator("option").allTextContents()).toEqual([
      ...["As it is now", "In 1 hour", "In 24 hours", "In 7 days", "In 30 days", "On a date…"],
    ]);
    await dialog.getByLabel("Expires").selectOption("On a date…");
    await dialog.getByLabel("Last day").fill(new Date(Date.now() + 70 * dayMs).toISOString().slice(0, 10));
    await page.keyboard.press("Enter");
    await dialog.getByText("The key expires before that. Choose an earlier day.").waitFor();
    await expectWellMade(page, "edit-refused");
    await dialog.getByLabel("Expires").selectOption("In 7 days");
    await dialog.getByLabel("Label (optional)").fill("  renamed ");
    await expectWellMade(page, "edit");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Key details" }).getByText("renamed").waitFor();
    await page.getByRole("status").getByText("Key renamed saved").waitFor({ state: "attached" });
    const { keys } = await keyrun.keys.listKeys({ teamId });
    expect(keys[0]!.label).toBe("renamed");
    expect(Math.abs(timestampMs(keys[0]!.expireTime!) - Date.now() - 7 * dayMs)).toBeLessThan(10 * minuteMs);
    await page.keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe("renamed");
    await rowOf(page, "renamed").getByText("in 7 days").waitFor();
  });

  test("who changes only the expiry leaves a label alone that someone else changes meanwhile", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const [keyId] = await makeKeys(screen, "ci-deploy");
    const opened = page.waitForResponse("**/keyrun.v1.KeyService/WatchKeys");
    await screen.signIn();
    await opened;
    await page.getByRole("button", { name: "ci-deploy", exact: true }).click();
    await page.getByRole("button", { name: "Edit…" }).click();
    await page.getByLabel("Expires").selectOption("In 30 days");
    await keyrun.keys.updateKey({
      teamId,
      keyId: keyId!,
      label: "renamed",
      updateMask: { paths: ["label"] },
    });
    await page.getByRole("dialog", { name: "Edit renamed" }).waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog", { name: "Key details" }).waitFor();
    const { keys } = await keyrun.keys.listKeys({ teamId });
    expect(keys.map(({ label, expireTime }) => [label, expireTime !== undefined])).toEqual([
      ["renamed", true],
    ]);
  });

  test("a change that fails stays in the dialog, and nothing is sent where nothing changed", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    let sent = 0;
    page.on("request", (request) => {
      if (request.url().endsWith("/UpdateKey")) sent += 1;
    });
    await page.getByRole("button", { name: "ci-deploy", exact: true }).click();
    await page.getByRole("button", { name: "Edit…" }).click();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "Edit…" }).click();
    expect(sent).toBe(0);
    const find = await loseCalls(page, "KeyService/UpdateKey");
    await page.getByLabel("Label (optional)").fill("renamed");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("Couldn’t change the key").waitFor();
    await expectWellMade(page, "edit-failed");
    await find();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog", { name: "Key details" }).waitFor();
    expect((await keyrun.keys.listKeys({ teamId })).keys[0]!.label).toBe("renamed");
  });
});
