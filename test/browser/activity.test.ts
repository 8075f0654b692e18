import { expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { holdTimers } from "./held-timers.ts";
import { cutFilters, focused, smallTargets } from "./page-probes.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { answerCalls, holdCalls, loseCalls } from "./screen-calls.ts";
import { makeKeys } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

const teamId = "demo";
const path = `/settings/team/${teamId}/activity`;

async function openActivity({ page, signIn, url }: Screen): Promise<void> {
  await signIn();
  await page.goto(url(path));
  await page.getByRole("heading", { level: 1, name: "Activity" }).waitFor();
}

describeInBrowser("the activity of a team", () => {
  test("the navigation leads to it and back, without a new document, and says where one is", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    await page.evaluate("window.sameDocument = true");
    const nav = page.getByRole("navigation", { name: "Team settings" });
    await nav.getByRole("link", { name: "Activity" }).click();
    await page.getByRole("rowheader", { name: "Key created" }).waitFor();
    expect(page.url()).toBe(screen.url(path));
    expect(await page.title()).toBe("Activity · Demo · Keyrun");
    expect(await nav.locator("[aria-current=page]").textContent()).toBe("Activity");
    await nav.getByRole("link", { name: "API keys" }).click();
    await page.getByRole("rowheader", { name: "ci-deploy" }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Activity" }).waitFor();
    expect(await page.evaluate("window.sameDocument")).toBe(true);
  });

  test("events show newest first: what, on which key, who and from where, and when", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const [keyId] = await makeKeys(screen, "ci-deploy");
    await keyrun.keys.revokeKey({ teamId, keyId: keyId! });
    await openActivity(screen);
    const table = page.getByRole("table", { name: "Activity of Demo" });
    await table.getByRole("rowheader", { name: "Key revoked" }).waitFor();
    const words = await table.getByRole("rowheader").allTextContents();
    expect(words.slice(0, 2)).toEqual(["Key revoked", "Key created"]);
    const row = table.getByRole("row").nth(1);
    await row.getByText("ci-deploy").waitFor();
    expect(await row.getByRole("cell").nth(1).textContent()).toMatch(/by RPC, from 127\.0\.0\.1/);
    expect(await row.getByRole("cell").nth(2).textContent()).toMatch(/just now|second|minute/);
    await expectWellMade(page, "activity");
  });

  test("a key stands in one piece, beside its label or below it", async () => {
    const screen = await openScreen();
    await makeKeys(screen, ...Array.from({ length: 8 }, (_, n) => "W".repeat(2 * n + 1)));
    await openActivity(screen);
    const keys = screen.page.locator(".activity code");
    await keys.nth(7).waitFor();
    const boxes = await Promise.all((await keys.all()).map((key) => key.boundingBox()));
    expect(Math.max(...boxes.map((box) => box!.height))).toBeLessThan(25);
  });

  test("a change elsewhere shows within seconds while the page is in view", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await page.clock.install();
    await openActivity(screen);
    await makeKeys(screen, "ci-deploy");
    await page.clock.fastForward(5_000);
    await page.getByRole("rowheader", { name: "Key created" }).waitFor();
  });

  test("the filters leave out other events, say so, and are taken back, by keyboard", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, "ci-deploy");
    await openActivity(screen);
    const events = page.getByRole("rowheader");
    await events.first().waitFor();
    await page.getByLabel("What").selectOption("Key rotated");
    await page.getByText("No event fits the filters").waitFor();
    await expectWellMade(page, "activity-no-match");
    await page.getByRole("button", { name: "Show all events" }).focus();
    await page.keyboard.press("Enter");
    await page.getByLabel("What").selectOption("Key created");
    await expect.poll(async () => new Set(await events.allTextContents())).toEqual(new Set(["Key created"]));
    await page.getByLabel("Who").selectOption({ index: 1 });
    await events.first().waitFor();
    const today = new Date();
    const day = (plus: number) => new Date(today.getTime() + plus * 86_400_000).toISOString().slice(0, 10);
    await page.getByLabel("From").fill(day(2));
    await page.getByText("No event fits the filters").waitFor();
    await page.getByLabel("From").fill(day(-2));
    await events.first().waitFor();
    await page.getByLabel("To").fill(day(-2));
    await page.getByText("No event fits the filters").waitFor();
    await page.getByLabel("To").fill(day(2));
    await events.first().waitFor();
    await page.getByLabel("What").focus();
    await page.keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("Who");
  });

  test("the filters are wide enough to be read, and stand in columns, in each width", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await openActivity(screen);
    const filters = ["What", "Who", "From", "To"];
    await page.getByLabel("What").selectOption("Leaked key reported");
    await page.getByLabel("From").fill("2026-11-28");
    for (const [width, columns] of [
      [320, 1],
      [640, 2],
      [768, 2],
      [1280, 4],
    ] as const) {
      await page.setViewportSize({ width, height: 860 });
      const boxes = await Promise.all(
        filters.map(async (label) => (await page.getByLabel(label, { exact: true }).boundingBox())!),
      );
      const lefts = new Set(boxes.map(({ x }) => Math.round(x)));
      const tops = new Set(boxes.map(({ y }) => Math.round(y)));
      expect({ width, lefts: lefts.size, tops: tops.size }).toEqual({
        width,
        lefts: columns,
        tops: 4 / columns,
      });
      expect(await cutFilters(page)).toEqual([]);
    }
  });

  test("a search finds the events of keys by their label, and of what has the whole name", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const [, keyId] = await makeKeys(screen, "ci-deploy", "staging");
    await keyrun.keys.revokeKey({ teamId, keyId: keyId! });
    await keyrun.teams.addMember({ teamId, email: "ada@example.com" });
    await openActivity(screen);
    const field = page.getByRole("searchbox", { name: "Search by key, person or app" });
    const words = () => page.getByRole("rowheader").allTextContents();
    await field.fill("STAG");
    await expect.poll(words).toEqual(["Key revoked", "Key created"]);
    await expectWellMade(page, "activity-search");
    await field.fill("Ada@example.com");
    await expect.poll(words).toEqual(["Member added"]);
    await field.fill("nothing like that");
    await page.getByText("No event fits the filters").waitFor();
    const find = await loseCalls(page, "KeyService/ListKeys");
    await field.fill("ci");
    const note = page.getByRole("alert");
    await note.getByText("Couldn’t load the activity.").waitFor();
    await find();
    await note.getByRole("button", { name: "Try again" }).click();
    await expect.poll(words).toEqual(["Key created"]);
    await page.getByRole("button", { name: "Clear search" }).click();
    await expect.poll(async () => (await words()).includes("Member added")).toBe(true);
  });

  test("more than a page: a button loads more, and no event shows twice", async () => {
    const screen = await openScreen({ settings: { KEYRUN_KEYS_PER_TEAM_MAX: "70" } });
    const { page } = screen;
    await makeKeys(screen, ...Array.from({ length: 53 }, (_, index) => `key-${index}`));
    await openActivity(screen);
    const events = page.getByRole("rowheader");
    await expect.poll(() => events.count()).toBe(50);
    await page.getByRole("button", { name: "Load more" }).click();
    await expect.poll(() => events.count()).toBeGreaterThan(52);
  });

  test("only the first page is read again: later ones stay, new events come on top, and outcomes become known", async () => {
    const screen = await openScreen();
    const { page } = screen;
    const event = (id: string, outcome = "DONE") => ({ id, action: id, outcome: `AUDIT_OUTCOME_${outcome}` });
    const pages = new Map<string, { events: object[]; nextPageToken?: string }>([
      ["", { events: [event("d", "UNKNOWN"), event("c")], nextPageToken: "after c" }],
      ["after c", { events: [event("b"), event("a")] }],
    ]);
    const asked: string[] = [];
    await page.route("**/keyrun.v1.AuditService/ListEvents", (route) => {
      const { pageToken } = route.request().postDataJSON();
      asked.push(pageToken);
      return route.fulfill({ json: pages.get(pageToken) });
    });
    await page.clock.install();
    await openActivity(screen);
    const shown = () => page.getByRole("rowheader").allTextContents();
    await expect.poll(shown).toEqual(["DOutcome unknown", "C"]);
    await page.getByRole("button", { name: "Load more" }).click();
    await expect.poll(shown).toEqual(["DOutcome unknown", "C", "B", "A"]);
    pages.set("", { events: [event("e"), event("d")], nextPageToken: "after d" });
    await page.clock.fastForward(5_000);
    await expect.poll(shown).toEqual(["E", "D", "C", "B", "A"]);
    expect(asked.filter((token) => token !== "")).toEqual(["after c"]);

    // More has happened between two reads than a page holds.
    pages.set("", { events: [event("i"), event("h")], nextPageToken: "after h" });
    pages.set("after h", { events: [event("g"), event("f")], nextPageToken: "after f" });
    await page.clock.fastForward(5_000);
    await expect.poll(shown).toEqual(["I", "H", "G", "F"]);
    pages.set("after f", { events: [event("e")] });
    await page.getByRole("button", { name: "Load more" }).click();
    await expect.poll(shown).toEqual(["I", "H", "G", "F", "E"]);
    expect(asked.filter((token) => token !== "")).toEqual(["after c", "after h", "after f"]);
  });

  test("loading and failing: empty rows, then what failed and a button that tries again", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    const release = await holdCalls(page, "AuditService/ListEvents");
    await page.goto(screen.url(path));
    await page.locator("table[aria-busy=true]").waitFor();
    await expectWellMade(page, "activity-loading");
    release();
    await page.getByRole("rowheader", { name: "Key created" }).waitFor();
    const find = await loseCalls(page, "AuditService/ListEvents");
    // Only the button reads again.
    await holdTimers(screen, bounds.activityPollMs);
    await page.reload();
    const note = page.getByRole("alert");
    await note.getByText("Couldn’t load the activity.").waitFor();
    await expectWellMade(page, "activity-failed");
    await find();
    await note.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("rowheader", { name: "Key created" }).waitFor();
  });

  test("nothing yet, refusals and unknown outcomes are told apart in words", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    const empty = await answerCalls(page, "AuditService/ListEvents", {});
    await page.goto(screen.url(path));
    await page.getByText("Nothing has happened yet").waitFor();
    await expectWellMade(page, "activity-empty");
    await empty();
    const event = (id: string, rest: object) => ({
      id,
      actor: "ada@acme.example",
      action: "key.create",
      ...rest,
    });
    await answerCalls(page, "AuditService/ListEvents", {
      events: [
        event("1", { outcome: "AUDIT_OUTCOME_REFUSED", reason: "KEY_LIMIT_REACHED", count: 3 }),
        event("2", { outcome: "AUDIT_OUTCOME_UNKNOWN", count: 1 }),
        event("3", { outcome: "AUDIT_OUTCOME_DONE", count: 1, action: "invented.later" }),
        event("4", {
          ...{ outcome: "AUDIT_OUTCOME_DONE", count: 1, action: "key.rotate" },
          detail: "overlap=3600s replaced_by_key_id=7k3f0m9x2a4c6e8g1j5n7p9q",
        }),
      ],
    });
    await page.reload();
    await page.getByText("Refused: key limit reached, 3 times").waitFor();
    expect(await page.getByRole("rowheader").allTextContents()).toEqual([
      "Create a keyRefused: key limit reached, 3 times",
      "Create a keyOutcome unknown",
      "Invented: later",
      "Key rotated",
    ]);
    const rotation = page.getByRole("row", { name: /^Key rotated/ });
    expect(await rotation.getByRole("cell").first().textContent()).toBe(
      " the old key works for 1 hour · replaced by 7k3f0m9x2a4c6e8g1j5n7p9q",
    );
    await expectWellMade(page, "activity-outcomes");
  });

  test("a team that the person is not in looks like one that does not exist, and without preview there is none", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const otherId = await keyrun.newTeam();
    await screen.signIn();
    for (const team of [otherId, "nobody"]) {
      await page.goto(screen.url(`/settings/team/${team}/activity`));
      await page.getByRole("heading", { name: "Team not found" }).waitFor();
    }
    await keyrun.teams.setPreviewAccess({ email: "owner@localhost", granted: false });
    await page.goto(screen.url(path));
    await page.getByText("API keys are in preview and limited to selected users.").waitFor();
    // The list may be refused before the session is read.
    await expect.poll(() => page.getByRole("link", { name: "Activity" }).count()).toBe(0);
  });

  test("under a finger every control has 44 px", async () => {
    const screen = await openScreen({
      browser: { hasTouch: true, isMobile: true, viewport: { width: 390, height: 844 } },
    });
    await makeKeys(screen, "ci-deploy");
    await openActivity(screen);
    await screen.page.getByRole("rowheader", { name: "Key created" }).waitFor();
    await expect.poll(() => smallTargets(screen.page, 44)).toEqual([]);
  });
});
