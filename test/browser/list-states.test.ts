import { expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { createFailingList } from "./failing-list.ts";
import { holdTimers } from "./held-timers.ts";
import { colourOf, hasFocus } from "./page-probes.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { holdCalls, loseCalls } from "./screen-calls.ts";
import { makeKeys, rowOf, wholePage } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

const teamId = "demo";

/** From the next document on, the list is read when it is opened and when a button asks for it. */
async function onlyButtonsRead(screen: Screen): Promise<void> {
  await holdTimers(screen, bounds.listRefreshMs, bounds.watchSilenceMsMax);
  // When the stream of changes opens, the keys are read again.
  await holdCalls(screen.page, "KeyService/WatchKeys");
}

describeInBrowser("the list of keys, in each of its states", () => {
  test("loading: heading and button are there at once, then three empty rows and an announcement", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    const release = await holdCalls(page, "KeyService/ListKeys");
    await holdTimers(screen, bounds.statusMs);
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
    await page.getByRole("button", { name: "Create new secret key" }).waitFor();
    const skeleton = page.locator("table[aria-busy=true]");
    await skeleton.waitFor();
    expect(await skeleton.locator("tbody tr").count()).toBe(3);
    await page.getByRole("status").getByText("Loading API keys").waitFor({ state: "attached" });
    await expectWellMade(page, "loading");
    const before = await skeleton.locator("tbody tr").first().boundingBox();
    release();
    await rowOf(page, "ci-deploy").waitFor();
    const after = await rowOf(page, "ci-deploy").boundingBox();
    expect({ y: after?.y, height: after?.height }).toEqual({ y: before?.y, height: before?.height });
    expect(await skeleton.count()).toBe(0);
  });

  test("empty: says what a key is for, and how to use one", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    await page.getByRole("heading", { name: "No API keys yet" }).waitFor();
    expect(await page.getByText(/^Create a key to call/).textContent()).toBe(
      "Create a key to call POST /api/apps/<app_id>/run from your code.",
    );
    expect(await page.getByRole("tabpanel").textContent()).toContain("Authorization: Bearer $KEYRUN_API_KEY");
    await expectWellMade(page, "empty");
  });

  test("full: newest first, every row says what it is, and keys without a label can be told apart", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const [oldId] = await makeKeys(screen, "staging");
    await makeKeys(screen, "W".repeat(128), "مفتاح النشر", "", "ci-deploy");
    await keyrun.keys.revokeKey({ teamId, keyId: oldId! });
    await screen.signIn();
    const table = page.getByRole("table", { name: "API keys of Demo" });
    expect(await table.getByRole("columnheader").allTextContents()).toEqual([
      ...["Label", "Key", "Created", "Last usedRequests in 30 days", "Expires", "Actions"],
    ]);
    expect(await table.getByRole("rowheader").allTextContents()).toEqual([
      ...["ci-deploy", "Untitled key", "مفتاح النشر", "W".repeat(128)],
    ]);
    const cells = await rowOf(page, "ci-deploy").getByRole("cell").allTextContents();
    expect(cells).toEqual([
      expect.stringMatching(/^svc_[0-9a-z]{4}….{4}$/),
      // Who made it is in the details.
      expect.stringMatching(/^(just now|\d+ (?:second|minute)s? ago)$/),
      ...["Never used", "Never", "Revoke"],
    ]);
    const name = await page.getByRole("button", { name: /^Revoke untitled key svc_.{4}….{4}$/ }).count();
    expect(name).toBe(1);
    await page.getByText("4 active keys (up to 50), 1 past").waitFor();
    await expectWellMade(page, "full");
    await page.getByRole("radio", { name: "Past" }).check();
    await page.getByRole("columnheader", { name: "Ended" }).waitFor();
    const past = await rowOf(page, "staging").getByRole("cell").allTextContents();
    expect(past.at(-1)).toMatch(/^(just now|\d+ (?:second|minute)s? ago)by the service token$/);
    expect(await page.getByRole("rowheader").allTextContents()).toEqual(["stagingRevoked"]);
    expect(await rowOf(page, "staging").getByRole("button").allTextContents()).toEqual(["staging"]);
    await expectWellMade(page, "full-with-revoked");
  });

  test("badges stand in one line below the label, which keeps the width of its column", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const label = "Support assistant of the shop";
    const { key } = await keyrun.keys.createKey({ teamId, label, appIds: ["echo"] });
    await keyrun.keys.rotateKey({ teamId, keyId: key!.id, overlap: { seconds: 3_600n } });
    await screen.signIn();
    const row = page.getByRole("row").filter({ hasText: "Replaced" });
    for (const width of [320, 640, 768, 1280]) {
      await page.setViewportSize({ width, height: 860 });
      const label = (await row.getByRole("rowheader").getByRole("button").boundingBox())!;
      const [restricted, replaced] = await Promise.all(
        ["Restricted", "Replaced"].map(async (badge) => (await row.getByText(badge).boundingBox())!),
      );
      expect(restricted!.y).toBeGreaterThanOrEqual(label.y + label.height);
      expect(replaced!.y).toBe(restricted!.y);
      // Its words have to be cut, so it is as wide as there is room.
      expect(label.width).toBeGreaterThan(180);
    }
    await page.setViewportSize({ width: 768, height: 860 });
    await expectWellMade(page, "badges");
  });

  test("long: fifty at once, and a button loads more", async () => {
    const screen = await openScreen({ settings: { KEYRUN_KEYS_PER_TEAM_MAX: "60" } });
    const { page } = screen;
    await makeKeys(screen, ...Array.from({ length: 53 }, (_, index) => `key-${index}`));
    await screen.signIn();
    const rows = page.getByRole("rowheader");
    expect(await rows.count()).toBe(50);
    await page.getByRole("button", { name: "Load more" }).click();
    await expect.poll(() => rows.count()).toBe(53);
    expect(await rows.last().textContent()).toBe("key-0");
    expect(await page.getByRole("button", { name: "Load more" }).count()).toBe(0);
    await page.getByText("53 active keys (up to 60)").waitFor();
  });

  test("error: says that nothing was changed, what to quote to the operator, and tries again", async () => {
    const failing = createFailingList();
    const screen = await openScreen({ onStores: failing.onStores });
    const { page, keyrun } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    failing.break();
    await onlyButtonsRead(screen);
    await page.reload();
    // On a busy machine another part of the page may fail as well, and say so.
    const note = page.getByRole("alert").filter({ hasText: "Couldn’t load API keys" });
    await note.getByText("Couldn’t load API keys. Nothing was changed.").waitFor();
    await note.getByText("If it goes on, tell whoever runs Keyrun:").waitFor();
    const [code, requestId] = await note.locator("code").allTextContents();
    expect(code).toBe("internal");
    await expect.poll(() => keyrun.logLines.some((line) => line.includes(requestId!))).toBe(true);
    await note.getByRole("button", { name: /request id/ }).waitFor();
    await expectWellMade(page, "error");
    failing.repair();
    await note.getByRole("button", { name: "Try again" }).click();
    await rowOf(page, "ci-deploy").waitFor();
    await note.waitFor({ state: "detached" });
  });

  test("error: what says so, and the focus on its button, stay while the page tries again", async () => {
    const failing = createFailingList();
    const screen = await openScreen({ onStores: failing.onStores });
    const { page } = screen;
    await screen.signIn();
    failing.break();
    await onlyButtonsRead(screen);
    await page.reload();
    const note = page.getByRole("alert").filter({ hasText: "Couldn’t load API keys" });
    const retry = note.getByRole("button", { name: "Try again" });
    const shown = await retry.elementHandle();
    const release = await holdCalls(page, "KeyService/ListKeys");
    await retry.press("Enter");
    await note.getByRole("button", { name: "Trying…" }).waitFor();
    expect(await page.locator("table[aria-busy=true]").count()).toBe(0);
    release();
    await retry.waitFor();
    expect(await hasFocus(shown!)).toBe(true);
  });

  test("error of a refresh: the rows stay, greyed, until a refresh succeeds", async () => {
    const failing = createFailingList();
    const screen = await openScreen({ onStores: failing.onStores });
    const { page } = screen;
    await makeKeys(screen, "ci-deploy");
    const pass = await holdTimers(screen, bounds.listRefreshMs);
    const opened = page.waitForResponse("**/keyrun.v1.KeyService/WatchKeys");
    await screen.signIn();
    await opened;
    const label = rowOf(page, "ci-deploy").getByRole("rowheader");
    const colour = () => colourOf(label);
    const fresh = await colour();
    failing.break();
    await pass();
    await page.getByRole("alert").getByText("What you see may be out of date").waitFor();
    expect(await colour()).not.toBe(fresh);
    await expectWellMade(page, "stale");
    failing.repair();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("alert").waitFor({ state: "detached" });
    await page.emulateMedia({ colorScheme: "light" });
    expect(await colour()).toBe(fresh);
  });

  test("at the key limit: the button is off and says why, and works again once a key is revoked", async () => {
    const screen = await openScreen({ settings: { KEYRUN_KEYS_PER_TEAM_MAX: "2" } });
    const { page } = screen;
    await makeKeys(screen, "one", "two");
    await screen.signIn();
    await wholePage(page);
    const create = page.getByRole("button", { name: "Create new secret key" });
    await expect.poll(() => create.getAttribute("aria-disabled")).toBe("true");
    await page.getByText("2 of 2 keys. Revoke one first.").waitFor();
    await create.focus();
    await page.keyboard.press("Enter");
    await expectWellMade(page, "key-limit");
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.getByRole("button", { name: "Revoke one" }).click();
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByText("Revoke one first").waitFor({ state: "detached" });
    await create.click();
    await page.getByRole("dialog", { name: "Create new secret key" }).waitFor();
  });

  test("usage: the bar fills with each request, and when it is full it says when the next one works", async () => {
    const screen = await openScreen({ settings: { KEYRUN_PLAN_LIMITS: "free=5" } });
    const { page, keyrun } = screen;
    const { value } = await keyrun.newKey(teamId);
    await page.clock.install();
    await holdTimers(screen, bounds.statusMs);
    await screen.signIn();
    const card = page.getByRole("region", { name: "Plan and usage" });
    await card.getByText("0 of 5 used").waitFor();
    expect(await card.textContent()).toContain(
      "Free plan · 5 requests per minute, shared by all keys of the team",
    );
    for (let runs = 0; runs < 4; runs++) expect((await screen.run(value)).status).toBe(200);
    await page.clock.fastForward(5_000);
    await card.getByText("4 of 5 used").waitFor();
    expect(await card.textContent()).not.toContain("next request");
    const meter = card.getByRole("meter", { name: "Requests used this minute" });
    expect(await meter.getAttribute("value")).toBe("4");
    expect(await meter.getAttribute("data-tone")).toBe("near");
    expect((await screen.run(value)).status).toBe(200);
    expect((await screen.run(value)).status).toBe(429);
    await page.clock.fastForward(5_000);
    await card.getByText(/5 of 5 used this minute · next request in \d+ s/).waitFor();
    await page
      .getByRole("status")
      .getByText(/^Limit reached/)
      .waitFor({ state: "attached" });
    expect(await meter.getAttribute("aria-valuetext")).toBe("5 of 5 used");
    expect(await meter.getAttribute("data-tone")).toBe("reached");
    await expectWellMade(page, "limit-reached");
  });

  test("usage that can't be read again: the last numbers stay, and say from when they are", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await page.clock.install();
    await screen.signIn();
    const card = page.getByRole("region", { name: "Plan and usage" });
    await card.getByText("0 of 60 used this minute").waitFor();
    const find = await loseCalls(page, "TeamService/GetRateLimit");
    await page.clock.fastForward(5_000);
    await card.getByText(/^0 of 60 used at \d{1,2}:\d\d:\d\d( [AP]M)?, no newer numbers$/).waitFor();
    expect(await card.getByRole("meter").getAttribute("data-tone")).toBe("stale");
    await expectWellMade(page, "usage-stale");
    await find();
    await page.clock.fastForward(5_000);
    await card.getByText("0 of 60 used this minute").waitFor();
  });

  test("an unreadable session: says so, and tries again", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    const find = await loseCalls(page, "SessionService/GetSession");
    await page.reload();
    await page.getByRole("heading", { name: "Keyrun can’t be reached" }).waitFor();
    await page.getByText("No answer of Keyrun came. Check your connection, then try again.").waitFor();
    expect(await page.getByText("Code").count()).toBe(0);
    await expectWellMade(page, "unreachable");
    await find();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "No API keys yet" }).waitFor();
  });
});
