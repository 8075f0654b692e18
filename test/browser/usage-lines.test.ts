import type { Page, Request } from "playwright-core";
import { expect, test } from "vitest";
import { layoutShiftListener, layoutShifts } from "./page-probes.ts";
import { createUsageRecorder } from "./recorded-usage.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { holdCalls, loseCalls } from "./screen-calls.ts";
import { makeKeys, rowOf } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

const teamId = "demo";
/** Thirty days of a key that works on weekdays, with 1,204 requests. */
const weekdays = Array.from({ length: 30 }, (_, day) => (day % 7 < 5 ? 50 + ((day * 17) % 11) : 4));

describeInBrowser("the line in the row of a key", () => {
  test("draws its last 30 days and says them in words; a key that was not used has none", async () => {
    const { screen, record } = await openUsed();
    const { page, keyrun } = screen;
    const busy = await usedKey(screen, "ci-deploy");
    await record(busy, weekdays);
    await usedKey(screen, "Nightly reports");
    const past = await usedKey(screen, "Staging before the move");
    await record(past, weekdays.toReversed());
    await keyrun.keys.revokeKey({ teamId, keyId: past });
    await makeKeys(screen, "Notebook");
    await screen.signIn();
    const all = weekdays.reduce((sum, count) => sum + count) + 1;
    const words = `${all.toLocaleString("en")} requests in 30 days, ${weekdays.at(-1)! + 1} today`;
    // The cell says how long ago the last use was, and how many there were.
    await rowOf(page, "ci-deploy")
      .getByRole("cell", { name: new RegExp(`^(just now|\\d+ (?:second|minute)s? ago) ?${words}$`) })
      .waitFor();
    await wordsOf(page, "Nightly reports").getByText("1 request in 30 days, 1 today").waitFor();
    expect(await rowOf(page, "Notebook").getByRole("cell").nth(2).textContent()).toBe("Never used");
    // From the first day to the last, within its box, and hidden from screen readers.
    const line = rowOf(page, "ci-deploy").locator("svg[aria-hidden=true] polyline");
    const points = (await line.getAttribute("points"))!.split(" ").slice(1, -1);
    expect(points.length).toBe(30);
    const heights = points.map((point) => Number(point.split(",")[1]));
    expect(heights[weekdays.indexOf(Math.max(...weekdays))]).toBe(1);
    expect(Math.max(...heights)).toBeLessThanOrEqual(17);
    await expectWellMade(page, "usage-lines");
    await page.getByRole("radio", { name: "Past" }).check();
    await rowOf(page, "Staging").locator("polyline").waitFor();
    await page.emulateMedia({ forcedColors: "active" });
    const colours = await page.evaluate<string[]>(`[
      getComputedStyle(document.querySelector(".keys polyline")).stroke,
      getComputedStyle(document.body).backgroundColor,
    ]`);
    expect(new Set(colours).size).toBe(2);
  });

  test("a page of 50 keys asks once, after the list is there; a further page asks for its own", async () => {
    const { screen, record } = await openUsed({ KEYRUN_KEYS_PER_TEAM_MAX: "60" });
    const { page } = screen;
    const oldest = await usedKey(screen, "key-0");
    await makeKeys(screen, ...Array.from({ length: 50 }, (_, index) => `key-${index + 1}`));
    const newest = await usedKey(screen, "key-51");
    for (const id of [oldest, newest]) await record(id, weekdays);
    const asked = await usageOfKeys(page);
    await screen.signIn();
    await rowOf(page, "key-51").locator("polyline").waitFor();
    await page.getByText("Show the numbers").waitFor();
    expect(asked.map(({ keyIds }) => keyIds.length)).toEqual([50]);
    expect(asked[0]).toMatchObject({ afterList: true, step: "USAGE_STEP_DAY" });
    await page.getByRole("button", { name: "Load more" }).click();
    await rowOf(page, "key-0").locator("polyline").waitFor();
    expect(asked.map(({ keyIds }) => keyIds.length)).toEqual([50, 2]);
    expect(asked[1]!.keyIds).toContain(oldest);
    expect(await page.locator("main tbody polyline").count()).toBe(2);
  });

  test("usage that can't be read leaves the list whole, and says nothing above it", async () => {
    const { screen } = await openUsed();
    const { page } = screen;
    await usedKey(screen, "ci-deploy");
    const find = await loseCalls(page, "KeyService/GetUsage");
    await screen.signIn();
    // The chart below the list says it for both.
    const note = page.getByRole("alert");
    await note.getByText("Couldn’t load the usage. Requests are counted all the same.").waitFor();
    const list = page.getByRole("region", { name: "Keys" });
    expect(await list.getByRole("alert").count()).toBe(0);
    expect(await list.locator("polyline").count()).toBe(0);
    expect(await rowOf(page, "ci-deploy").getByRole("cell").nth(2).textContent()).toMatch(/^just now$|ago$/);
    expect(await page.getByRole("button", { name: "Revoke ci-deploy" }).isEnabled()).toBe(true);
    await find();
  });

  test("is drawn anew while the page is in view, with one call, and stays when that fails", async () => {
    const { screen, record } = await openUsed();
    const { page } = screen;
    const key = await usedKey(screen, "ci-deploy");
    await usedKey(screen, "Nightly reports");
    await page.clock.install();
    const asked = await usageOfKeys(page);
    await screen.signIn();
    const words = wordsOf(page, "ci-deploy");
    await words.getByText("1 request in 30 days, 1 today").waitFor();
    await record(key, [7, 2]);
    await page.clock.fastForward(30_000);
    await words.getByText("10 requests in 30 days, 3 today").waitFor();
    expect(asked.length).toBe(2);
    const failed = page.waitForEvent(
      "requestfailed",
      (request) => request.postData()?.includes(key) ?? false,
    );
    await loseCalls(page, "KeyService/GetUsage");
    await page.clock.fastForward(30_000);
    await failed;
    expect(await words.getByText("10 requests in 30 days, 3 today").count()).toBe(1);
  });

  test("moves nothing when it comes, at any width", async () => {
    const { screen } = await openUsed({}, { hasTouch: true, isMobile: true });
    await usedKey(screen, "ci-deploy");
    await makeKeys(screen, "Notebook");
    await screen.signIn();
    for (const width of [320, 412, 640, 768, 1024, 1280]) {
      const page = await screen.context.newPage();
      await page.setViewportSize({ width, height: 860 });
      await page.addInitScript({ content: layoutShiftListener });
      const release = await holdCalls(page, "KeyService/GetUsage");
      await page.goto(screen.url(`/settings/team/${teamId}/api-keys`));
      await page.getByText("Show the numbers").waitFor();
      const heights = () =>
        page.evaluate<number[]>(
          `[...document.querySelectorAll(".keys tbody tr")].map((row) => row.getBoundingClientRect().height)`,
        );
      const before = await heights();
      release();
      await rowOf(page, "ci-deploy").locator("polyline").waitFor({ state: "attached" });
      expect({ width, heights: await heights() }).toEqual({ width, heights: before });
      const { total, moves } = await layoutShifts(page);
      expect({ width, moves: total > 0.05 ? moves : [] }).toEqual({ width, moves: [] });
      await page.close();
    }
  });
});

/** What the row of a key says of its uses, for screen readers. */
function wordsOf(page: Page, label: string) {
  return rowOf(page, label).locator(".visually-hidden");
}

async function openUsed(settings: Record<string, string> = {}, browser = {}) {
  const { onStores, record } = createUsageRecorder();
  return { screen: await openScreen({ settings, browser, onStores }), record };
}

/** A key that has made one request. Returns its id. */
async function usedKey(screen: Screen, label: string): Promise<string> {
  const { key, value } = await screen.keyrun.keys.createKey({ teamId, label });
  expect((await screen.run(value)).status).toBe(200);
  return key!.id;
}

/** Notes each call that asks for the usage of keys, and whether the list was answered before. */
async function usageOfKeys(page: Page) {
  const asked: { keyIds: string[]; step: unknown; afterList: boolean }[] = [];
  let listed = false;
  page.on("response", (response) => {
    if (response.url().endsWith("KeyService/ListKeys")) listed = true;
  });
  page.on("request", (request: Request) => {
    if (!request.url().endsWith("KeyService/GetUsage")) return;
    const { keyIds, step } = request.postDataJSON();
    if (keyIds) asked.push({ keyIds, step, afterList: listed });
  });
  return asked;
}
