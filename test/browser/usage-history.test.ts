import { beforeEach, expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { untilHourHasRoom } from "../harness/hour-border.ts";
import { holdTimers } from "./held-timers.ts";
import { focused, layoutShiftListener, layoutShifts, smallTargets } from "./page-probes.ts";
import { createUsageRecorder } from "./recorded-usage.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { holdCalls, loseCalls } from "./screen-calls.ts";
import { makeKeys } from "./screen-flows.ts";
import { expectWellMade, takePictures } from "./screen-state.ts";

const teamId = "demo";

describeInBrowser("the usage of the last hours and days", () => {
  // All requests of a test are in one hour.
  beforeEach(untilHourHasRoom, 300_000);

  test("requests show as bars, and as a table by keyboard, apart by what became of them", async () => {
    const screen = await openScreen({ settings: { KEYRUN_PLAN_LIMITS: "free=5" } });
    const { page, keyrun } = screen;
    const { value } = await keyrun.newKey(teamId);
    for (let runs = 0; runs < 7; runs++) await screen.run(value);
    await screen.signIn();
    const card = page.getByRole("region", { name: "Requests", exact: true });
    await card.getByText("7 requests, 2 refused by the limit in the last 24 hours").waitFor();
    expect(await card.locator("svg rect[data-part=answered]").count()).toBe(1);
    expect(await card.locator("svg rect[data-part=limited]").count()).toBe(1);
    expect(await card.locator("svg .bar-place").count()).toBe(24);
    await card.locator("svg .bar-place").last().hover({ force: true });
    await card
      .locator("figcaption")
      .getByText(/^\d.*: 7 requests, 2 refused by the limit$/)
      .waitFor();
    await page.getByText("Show the numbers").focus();
    await page.keyboard.press("Enter");
    const table = card.getByRole("table", { name: "Requests in the last 24 hours" });
    expect(await table.getByRole("row").count()).toBe(25);
    const newest = await table.getByRole("row").nth(1).getByRole("cell").allTextContents();
    expect(newest).toEqual(["7", "0", "2", expect.stringMatching(/^\d+ ms$/)]);
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.getAttribute('aria-label')")).toBe(
      "Requests in the last 24 hours",
    );
    await expectWellMade(page, "usage-history");
  });

  test("the days of a month replace the hours of a day, by keyboard", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { value } = await keyrun.newKey(teamId);
    await screen.run(value);
    await screen.signIn();
    const card = page.getByRole("region", { name: "Requests", exact: true });
    await card.getByText("1 request in the last 24 hours").waitFor();
    await card.getByRole("radio", { name: "24 hours" }).focus();
    await page.keyboard.press("ArrowRight");
    await card.getByText("1 request in the last 30 days").waitFor();
    expect(await focused(page)).toBe("30 days");
    expect(await card.locator("svg .bar-place").count()).toBe(30);
    await expectWellMade(page, "usage-history-month");
  });

  test("by keyboard, the arrows, Home and End go from bar to bar, and its numbers are shown and said", async () => {
    const { onStores, record } = createUsageRecorder();
    const screen = await openScreen({ onStores });
    const { page, keyrun } = screen;
    const { id, value } = await keyrun.newKey(teamId);
    await record(id, [
      9,
      0,
      0,
      6,
      5,
      8,
      ...Array.from({ length: 22 }, (_, day) => 3 + ((day * 5) % 9)),
      4,
      2,
    ]);
    await screen.run(value);
    await screen.signIn();
    const card = page.getByRole("region", { name: "Requests", exact: true });
    await card.getByRole("radio", { name: "24 hours" }).focus();
    await page.keyboard.press("ArrowRight");
    const total = /^\d+ requests in the last 30 days$/;
    await card.locator("figcaption").getByText(total).waitFor();
    await page.keyboard.press("Tab");
    const bars = card.getByRole("slider", { name: "Requests of each day" });
    expect(await focused(page)).toBe("Requests of each day");
    /** Where the keyboard is, and what is said and shown of it; these are always the same. */
    const at = async () => {
      const said = (await bars.getAttribute("aria-valuetext"))!;
      expect(await card.locator("figcaption").textContent()).toBe(said);
      const now = Number(await bars.getAttribute("aria-valuenow"));
      const marked = await page.evaluate<number[]>(
        `[...document.querySelectorAll(".bar-place")].flatMap((bar, place) => (bar.matches(".pointed") ? [place] : []))`,
      );
      expect(marked).toEqual([now]);
      return [now, said.replace(/^.*: /, "")];
    };
    // It begins at the newest, which has the run of this test, too.
    expect(await at()).toEqual([29, "3 requests"]);
    for (const [key, ...expected] of [
      ["ArrowRight", 29, "3 requests"],
      ["ArrowLeft", 28, "4 requests"],
      ["Home", 0, "9 requests"],
      ["ArrowLeft", 0, "9 requests"],
      ["ArrowRight", 1, "No requests"],
      ["ArrowUp", 2, "No requests"],
      ["End", 29, "3 requests"],
      ["ArrowDown", 28, "4 requests"],
    ] as const) {
      await page.keyboard.press(key);
      expect([key, ...(await at())]).toEqual([key, ...expected]);
    }
    // What the pointer is at comes first, and then the keyboard's place is there again.
    await card.locator(".bar-place").first().hover({ force: true });
    await card
      .locator("figcaption")
      .getByText(/: 9 requests$/)
      .waitFor();
    await page.mouse.move(0, 0);
    expect(await at()).toEqual([28, "4 requests"]);
    await expectWellMade(page, "usage-history-focused");
    await page.keyboard.press("Tab");
    await card.locator("figcaption").getByText(total).waitFor();
    // With a day's hours there is no such place.
    await card.getByRole("radio", { name: "24 hours" }).check({ force: true });
    await card
      .locator("figcaption")
      .getByText(/in the last 24 hours$/)
      .waitFor();
    expect(
      await card.getByRole("slider", { name: "Requests of each hour" }).getAttribute("aria-valuenow"),
    ).toBe("23");
  });

  test("until the days of a month come, the words still say that the hours of a day are shown", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { value } = await keyrun.newKey(teamId);
    await screen.run(value);
    await screen.signIn();
    const card = page.getByRole("region", { name: "Requests", exact: true });
    await card.getByText("1 request in the last 24 hours").waitFor();
    const release = await holdCalls(page, "KeyService/GetUsage");
    const asked = page.waitForRequest("**/keyrun.v1.KeyService/GetUsage");
    await card.getByRole("radio", { name: "30 days" }).check({ force: true });
    await asked;
    expect(await card.locator("figcaption").textContent()).toBe("1 request in the last 24 hours");
    expect(await card.locator("svg .bar-place").count()).toBe(24);
    release();
    await card.getByText("1 request in the last 30 days").waitFor();
  });

  test("without a used key there is no chart, and it comes with the first use", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { value } = await keyrun.newKey(teamId);
    await screen.signIn();
    await page.getByText("Never used").waitFor();
    expect(await page.getByRole("heading", { name: "Requests" }).count()).toBe(0);
    await screen.run(value);
    await page.getByRole("heading", { name: "Requests" }).waitFor();
  });

  test("usage that can't be read says so, and tries again", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { value } = await keyrun.newKey(teamId);
    await screen.run(value);
    const find = await loseCalls(page, "KeyService/GetUsage");
    // Only the button reads again.
    await holdTimers(screen, bounds.usageHistoryPollMs);
    await screen.signIn();
    const note = page.getByRole("alert");
    await note.getByText("Couldn’t load the usage. Requests are counted all the same.").waitFor();
    await expectWellMade(page, "usage-history-failed");
    await find();
    await note.getByRole("button", { name: "Try again" }).click();
    await page.getByText("1 request in the last 24 hours").waitFor();
  });

  test("the details of a key tell how often it was used", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { key, value } = await keyrun.keys.createKey({ teamId, label: "ci-deploy" });
    const other = await keyrun.newKey(teamId);
    for (const used of [value, value, other.value]) await screen.run(used);
    await screen.signIn();
    await page.getByRole("button", { name: "ci-deploy", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Key details" });
    await dialog.getByText(key!.id).waitFor();
    await dialog.getByRole("definition").getByText("2 requests", { exact: true }).waitFor();
  });

  test.each([320, 412, 768, 1280])("at %i px the chart moves nothing when it comes", async (width) => {
    const screen = await openScreen({ browser: { viewport: { width, height: 1600 } } });
    const { keyrun } = screen;
    const { value } = await keyrun.newKey(teamId);
    await screen.run(value);
    await screen.signIn();
    const page = await screen.context.newPage();
    await page.addInitScript({ content: layoutShiftListener });
    const release = await holdCalls(page, "KeyService/GetUsage");
    await page.goto(screen.url(`/settings/team/${teamId}/api-keys`));
    await page.getByText("Show the numbers").waitFor();
    release();
    await page.getByText("1 request in the last 24 hours").waitFor();
    const { total, moves } = await layoutShifts(page);
    expect({ total, moves: total > 0.05 ? moves : [] }).toEqual({ total: expect.any(Number), moves: [] });
  });

  test("the bars show in forced colours, and under a finger every control has 44 px", async () => {
    const screen = await openScreen({
      browser: {
        forcedColors: "active",
        hasTouch: true,
        isMobile: true,
        viewport: { width: 390, height: 844 },
      },
    });
    const { page, keyrun } = screen;
    const { value } = await keyrun.newKey(teamId);
    await screen.run(value);
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    await page.getByText("1 request in the last 24 hours").waitFor();
    const colours = await page.evaluate<string[]>(`[
      getComputedStyle(document.querySelector(".chart rect[data-part]")).fill,
      getComputedStyle(document.body).backgroundColor,
    ]`);
    expect(new Set(colours).size).toBe(2);
    await expect.poll(() => smallTargets(page, 44)).toEqual([]);
    await takePictures(page, "usage-history-forced");
  });
});
