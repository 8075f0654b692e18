import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import { bounds } from "../../web/bounds.ts";
import { holdTimers } from "./held-timers.ts";
import { focused } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { holdCalls } from "./screen-calls.ts";
import { clipboard, createByHand, makeKeys, rowOf } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

const teamId = "demo";
const many = ["one", "two", "three", "ci-deploy", "Deploy to staging", "six"];

const field = (page: Page) => page.getByRole("searchbox", { name: "Search keys by label, key or id" });
const labels = (page: Page) => page.getByRole("rowheader").allTextContents();
const said = (page: Page, text: string) =>
  page.getByRole("status").getByText(text, { exact: true }).waitFor({ state: "attached" });

describeInBrowser("finding a key among many", () => {
  test("a team with few keys sees no search, no filter and no order to choose", async () => {
    const screen = await openScreen();
    const { page } = screen;
    const [firstId] = await makeKeys(screen, ...many.slice(1));
    await screen.signIn();
    expect(await page.getByRole("searchbox").count()).toBe(0);
    expect(await page.getByLabel("Unused for 90 days").count()).toBe(0);
    expect(await page.getByRole("columnheader").getByRole("button").count()).toBe(0);
    await makeKeys(screen, "seven");
    await field(page).waitFor();
    const created = page.getByRole("columnheader").getByRole("button", { name: "Created" });
    await created.click();
    await expect.poll(async () => (await labels(page))[0]).toBe("two");
    // An order that was chosen can be taken back, even with few keys again.
    await screen.keyrun.keys.revokeKey({ teamId, keyId: firstId! });
    await page.getByText("5 active keys (up to 50), 1 past").waitFor();
    await created.click();
    await expect.poll(async () => (await labels(page))[0]).toBe("seven");
  });

  test("a search finds labels in any case, ids and redacted values, and says how many keys it found", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const ids = await makeKeys(screen, ...many);
    const { keys } = await keyrun.keys.listKeys({ teamId });
    await holdTimers(screen, bounds.statusMs);
    await screen.signIn();
    await field(page).fill(" DEPLOY ");
    await expect.poll(() => labels(page)).toEqual(["Deploy to staging", "ci-deploy"]);
    await said(page, "2 keys found");
    await expectWellMade(page, "search");
    await field(page).fill(ids[0]!);
    await expect.poll(() => labels(page)).toEqual(["one"]);
    await said(page, "1 key found");
    await field(page).fill(keys.find(({ label }) => label === "two")!.redactedValue);
    await expect.poll(() => labels(page)).toEqual(["two"]);
    await page.keyboard.press("Escape");
    await expect.poll(() => labels(page)).toEqual([...many].reverse());
    await said(page, "All keys are shown");
    expect(await page.evaluate("location.href")).toBe(screen.url("/settings/team/demo/api-keys"));
  });

  test("a whole key that is pasted or typed becomes its id before it is shown or sent", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page, context, keyrun } = screen;
    await makeKeys(screen, ...many);
    const { key, value } = await keyrun.keys.createKey({ teamId, label: "leaked" });
    const secret = value.slice(value.indexOf(".") + 1);
    const sent: string[] = [];
    context.on("request", (request) => void sent.push(`${request.url()} ${request.postData()}`));
    await screen.signIn();
    await field(page).fill("gone");
    await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(`Bearer ${value}`)})`);
    await field(page).press("Control+a");
    // Everything that the field holds from here on, even for a moment.
    await page.evaluate(`{
      window.held = [];
      const field = document.querySelector("[type=search]");
      for (const event of ["beforeinput", "input"]) field.addEventListener(event, () => window.held.push(field.value), true);
    }`);
    await field(page).press("Control+v");
    await expect.poll(() => field(page).inputValue()).toBe(key!.id);
    expect((await page.evaluate<string[]>("window.held")).filter((held) => held.includes(secret))).toEqual(
      [],
    );
    await expect.poll(() => labels(page)).toEqual(["leaked"]);
    await field(page).fill(value);
    expect(await field(page).inputValue()).toBe(key!.id);
    expect(sent.some((request) => request.includes(key!.id))).toBe(true);
    expect([...sent, ...keyrun.logLines].filter((text) => text.includes(secret)).length).toBe(0);
  });

  test("letters typed in a row are one search, and an older search is aborted", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, ...many);
    // When the stream of changes opens, the keys are read again: another search, of the same text.
    await holdCalls(page, "KeyService/WatchKeys");
    const pass = await holdTimers(screen, bounds.searchDelayMs);
    await screen.signIn();
    await field(page).waitFor();
    const searches: string[] = [];
    const aborted: string[] = [];
    const queryOf = (data: string | null) => JSON.parse(data ?? "{}").query;
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route("**/keyrun.v1.KeyService/ListKeys", async (route) => {
      const query = queryOf(route.request().postData());
      if (query) searches.push(query);
      if (query === "one") await released;
      await route.continue().catch(() => {});
    });
    page.on("requestfailed", (request) => {
      if (request.url().endsWith("ListKeys")) aborted.push(queryOf(request.postData()));
    });
    await field(page).pressSequentially("one");
    await pass();
    await expect.poll(() => searches).toEqual(["one"]);
    await field(page).fill("two");
    await pass();
    await expect.poll(() => labels(page)).toEqual(["two"]);
    await expect.poll(() => aborted).toEqual(["one"]);
    release();
    expect(searches).toEqual(["one", "two"]);
    expect(await labels(page)).toEqual(["two"]);
  });

  test("no match: says so, and leads back to all keys or to the revoked ones", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await makeKeys(screen, ...many);
    const [revokedId] = await makeKeys(screen, "old-name");
    await keyrun.keys.revokeKey({ teamId, keyId: revokedId! });
    await holdTimers(screen, bounds.statusMs);
    await screen.signIn();
    await field(page).fill("old-name");
    await page.getByRole("heading", { name: "No key matches “old-name”" }).waitFor();
    await said(page, "No key found");
    await expectWellMade(page, "no-match");
    await page.getByRole("button", { name: "Search past keys" }).click();
    await expect.poll(() => labels(page)).toEqual(["old-nameRevoked"]);
    await field(page).fill("nothing at all");
    await page.getByRole("heading", { name: "No past key matches “nothing at all”" }).waitFor();
    await page.getByRole("button", { name: "Show all past keys" }).click();
    await expect.poll(() => labels(page)).toEqual(["old-nameRevoked"]);
    expect(await field(page).inputValue()).toBe("");
    await field(page).fill("one");
    await page.getByRole("heading", { name: "No past key matches “one”" }).waitFor();
    await page.getByRole("button", { name: "Search active keys" }).click();
    await expect.poll(() => labels(page)).toEqual(["one"]);
  });

  test("keys are sorted by creation, last use and expiry, and what is not loaded is loaded for it", async () => {
    const screen = await openScreen({ settings: { KEYRUN_KEYS_PER_TEAM_MAX: "60" } });
    const { page, keyrun } = screen;
    await makeKeys(screen, ...Array.from({ length: 50 }, (_, index) => `key-${index}`));
    const { value } = await keyrun.keys.createKey({ teamId, label: "used" });
    await screen.run(value);
    const expireTime = timestampFromMs(Date.now() + 86_400_000);
    await keyrun.keys.createKey({ teamId, label: "ending", expireTime });
    await makeKeys(screen, "newest");
    await holdTimers(screen, bounds.statusMs);
    await screen.signIn();
    const header = (name: string) => page.getByRole("columnheader", { name });
    await page.getByLabel("Unused for 90 days").waitFor();
    await page.getByRole("button", { name: "Load more" }).waitFor();
    expect(await header("Created").getAttribute("aria-sort")).toBe("descending");
    const ends = async () =>
      (await labels(page)).filter((_, index, all) => [0, all.length - 1].includes(index));
    expect(await ends()).toEqual(["newest", "key-3"]);
    await header("Created").getByRole("button").click();
    await expect.poll(ends).toEqual(["key-0", "newest"]);
    expect(await header("Created").getAttribute("aria-sort")).toBe("ascending");
    await said(page, "Sorted by time of creation, oldest first");
    await header("Last used").getByRole("button").focus();
    await page.keyboard.press("Enter");
    await expect.poll(ends).toEqual(["used", "key-0"]);
    expect(await header("Last used").getAttribute("aria-sort")).toBe("descending");
    expect(await header("Created").getAttribute("aria-sort")).toBeNull();
    await said(page, "Sorted by last use, newest first");
    await expect.poll(() => focused(page)).toBe("Last used");
    // The next row is that of the order on the page.
    await page.getByRole("button", { name: "Revoke used" }).click();
    await page.getByRole("button", { name: "Revoke key", exact: true }).click();
    await expect.poll(() => focused(page)).toBe("Revoke newest");
    await page.keyboard.press("Escape");
    await header("Expires").getByRole("button").click();
    await expect.poll(async () => (await labels(page))[0]).toBe("ending");
    expect(await header("Expires").getAttribute("aria-sort")).toBe("ascending");
    await said(page, "Sorted by expiry, soonest first");
  });

  test("past keys stand alone, last ended first, are searched alone, and leave the order of the active ones", async () => {
    const screen = await openScreen({ settings: { KEYRUN_KEYS_PER_TEAM_MAX: "80" } });
    const { page, keyrun } = screen;
    const ids = await makeKeys(screen, ...Array.from({ length: 60 }, (_, index) => `key-${index}`));
    // The oldest keys end last, so a page of the newest ones does not hold them.
    for (const keyId of ids.slice(5, 57).reverse()) await keyrun.keys.revokeKey({ teamId, keyId });
    await screen.signIn();
    await page.getByText("8 active keys (up to 80), 52 past").waitFor();
    const by = (name: string) => page.getByRole("columnheader", { name }).getByRole("button");
    await by("Created").click();
    await expect.poll(async () => (await labels(page))[0]).toBe("key-0");
    await page.getByRole("radio", { name: "Past" }).check();
    await expect.poll(async () => (await labels(page)).length).toBe(52);
    // Two keys may end in the same millisecond.
    expect((await labels(page))[0]).toMatch(/^key-[56]Revoked$/);
    const ended = page.getByRole("columnheader", { name: "Ended" });
    expect(await ended.getAttribute("aria-sort")).toBe("descending");
    await by("Ended").click();
    await expect.poll(async () => (await labels(page))[0]).toMatch(/^key-5[56]Revoked$/);
    await said(page, "Sorted by end, oldest first");
    // None of them can be out of use.
    expect(await page.getByLabel("Unused for 90 days").count()).toBe(0);
    await field(page).fill("key-1");
    await expect.poll(async () => (await labels(page)).length).toBe(10);
    await page.getByText("10 keys found", { exact: true }).first().waitFor();
    await page.getByRole("radio", { name: "Active" }).check();
    await expect.poll(() => labels(page)).toEqual(["key-1"]);
    await field(page).fill("");
    await expect.poll(async () => (await labels(page))[0]).toBe("key-0");
    const [last] = await makeKeys(screen, "last");
    await page.getByRole("radio", { name: "Past" }).check();
    await expect.poll(async () => (await labels(page)).includes("key-56Revoked")).toBe(true);
    expect(await ended.getAttribute("aria-sort")).toBe("ascending");
    await keyrun.keys.revokeKey({ teamId, keyId: last! });
    await expect.poll(async () => (await labels(page)).includes("lastRevoked")).toBe(true);
  });

  test("a page of a search that holds no key is followed by the next one, unasked", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, ...many);
    await screen.signIn();
    await field(page).waitFor();
    const asked: string[] = [];
    await page.route("**/keyrun.v1.KeyService/ListKeys", async (route) => {
      const request = route.request().postDataJSON();
      if (!request.query) return route.continue();
      const { pageToken, ...first } = request;
      asked.push(pageToken);
      // As Keyrun answers where a search has looked at very many keys in vain.
      if (pageToken === "") return route.fulfill({ json: { nextPageToken: "second" } });
      if (pageToken === "second") return route.fulfill({ json: { nextPageToken: "third" } });
      const response = await route.fetch({ postData: JSON.stringify(first) });
      return route.fulfill({ response });
    });
    await field(page).fill("deploy");
    await expect.poll(() => labels(page)).toEqual(["Deploy to staging", "ci-deploy"]);
    // The list may be read again meanwhile, from its first page.
    expect(new Set(asked)).toEqual(new Set(["", "second", "third"]));
  });

  test("the filter leaves the keys that were not used for 90 days, and a new key shows all again", async () => {
    let behindMs = bounds.unusedMs + 60_000;
    const clock = { ...systemClock, unixMs: () => systemClock.unixMs() - behindMs };
    const screen = await openScreen({ clock, browser: clipboard });
    const { page, keyrun } = screen;
    await makeKeys(screen, "idle", "idle too");
    const { value } = await keyrun.keys.createKey({ teamId, label: "in use" });
    behindMs = 0;
    await makeKeys(screen, ...many.slice(3));
    expect((await screen.run(value)).status).toBe(200);
    await holdTimers(screen, bounds.statusMs, bounds.copiedMs);
    await screen.signIn();
    await page.getByLabel("Unused for 90 days").check();
    await expect.poll(() => labels(page)).toEqual(["idle too", "idle"]);
    await said(page, "2 keys found");
    await expectWellMade(page, "unused");
    const { dialog } = await createByHand(page, "fresh");
    await dialog.getByRole("button", { name: "Copy API key" }).click();
    await dialog.getByText("API key copied").waitFor({ state: "attached" });
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await expect.poll(async () => (await labels(page))[0]).toBe("freshNew");
    expect(await page.getByLabel("Unused for 90 days").isChecked()).toBe(false);
  });

  test("under a search, changes by others show only where they belong", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const ids = await makeKeys(screen, ...many);
    const opened = page.waitForResponse("**/keyrun.v1.KeyService/WatchKeys");
    await holdTimers(screen, bounds.statusMs, bounds.departingRowMs);
    await screen.signIn();
    await opened;
    await field(page).fill("deploy");
    await expect.poll(() => labels(page)).toEqual(["Deploy to staging", "ci-deploy"]);
    await makeKeys(screen, "elsewhere", "deploy again");
    await expect.poll(() => labels(page)).toEqual(["deploy again", "Deploy to staging", "ci-deploy"]);
    await page.getByText("3 keys found", { exact: true }).first().waitFor();
    await keyrun.keys.revokeKey({ teamId, keyId: ids[0]! });
    await said(page, "Key one was revoked by the service token");
    expect(await rowOf(page, "one").count()).toBe(0);
    await keyrun.keys.revokeKey({ teamId, keyId: ids[3]! });
    await rowOf(page, "ci-deploy").getByText("Revoked by the service token just now").waitFor();
    await field(page).fill("");
    await page.getByText("6 active keys (up to 50), 2 past").waitFor();
    await expect.poll(async () => (await labels(page)).includes("elsewhere")).toBe(true);
    await expect.poll(() => rowOf(page, "ci-deploy").count()).toBe(0);
  });
});
