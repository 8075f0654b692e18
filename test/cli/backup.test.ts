import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { backgroundCallers } from "../api/background-callers.ts";
import { runCommand } from "../harness/command-line.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { secretPlaces } from "../harness/secret-places.ts";

const { embedded, newFolder } = secretPlaces();

/** A place with a Keyrun that serves, and the folder of its backups. */
async function served() {
  const place = embedded();
  const first = await place.start();
  const key = async (label: string) => {
    const value = (await place.command("keys", "create", "--team", "demo", "--label", label)).stdout.trim();
    return { value, id: value.split(".")[0]! };
  };
  const did = async (...args: string[]) => expect(await place.command(...args)).toMatchObject({ code: 0 });
  return { ...place, did, first, key, dataDir: place.settings.KEYRUN_DATA_DIR!, backups: newFolder() };
}

test("a backup that was taken under use holds all that was answered before it, and works alone", async () => {
  const { command, first, key, dataDir, backups } = await served();
  const made = [await key("a"), await key("b")];
  const order = { appId: "echo", text: "hello", input: { a: [1, null] }, key: "order-4711" };
  const ran = async ({ publicUrl }: { publicUrl: string }) =>
    (await backgroundCallers["REST over HTTP/1.1"]!(publicUrl, made[0]!.value).run(order)).run;
  const answered = await ran(first);
  const uses = setInterval(() => void first.statusOf(made[0]!.value), 1);
  const folder = join(backups, "new/monday");
  const { code, stdout, stderr } = await command("backup", folder, "--json");
  clearInterval(uses);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(JSON.parse(stdout)).toMatchObject({ folder, teams: 1, keys: 2 });
  expect(readdirSync(folder).sort()).toEqual(["keyrun.db", "secret", "service-token"]);
  expect(readdirSync(join(backups, "new"))).toEqual(["monday"]);
  for (const name of [".", "keyrun.db", "secret"])
    expect((statSync(join(folder, name)).mode & 0o077).toString(8)).toBe("0");
  await first.stop();

  // On a machine where nothing is left.
  const elsewhere = embedded();
  const restored = await elsewhere.command("restore", folder);
  expect(restored).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Restored, and checked: 1 team and 2 keys/),
  });
  expect(restored.stderr).toContain("is not known (the data folder had no store), and works again");
  const again = await elsewhere.start();
  for (const { value } of made) expect(await again.statusOf(value)).toBe(200);
  expect(await ran(again)).toEqual(answered);
  expect(answered).toMatchObject({ text: order.text, output: order.input });
  expect(existsSync(join(dataDir, "keyrun.db"))).toBe(true);
});

test("what was revoked or given an end after the backup stays so, and what was there before is kept", async () => {
  const { command, did, first, key, dataDir, backups, start } = await served();
  const [revoked, replaced, ending, kept] = [await key("a"), await key("b"), await key("c"), await key("d")];
  const token = ["service-tokens", "create", "billing", "--role", "manage", "--team", "demo"];
  await did(...token);
  await did("backup", join(backups, "b"));
  await did("keys", "revoke", "--team", "demo", revoked.id);
  await did("keys", "rotate", "--team", "demo", replaced.id);
  await did("keys", "rotate", "--team", "demo", ending.id, "--overlap", "1m");
  await did("service-tokens", "revoke", "billing");
  const late = await key("late");
  await first.stop();

  const { code, stdout } = await command("restore", join(backups, "b"), "--json");
  const { replaced: before, ...found } = JSON.parse(stdout);
  expect({ code, ...found }).toMatchObject({ code: 0, keys: 4, revoked: 4, unknown: null });
  expect(readdirSync(before).sort()).toEqual(["keyrun.db", "secret", "service-token"]);
  expect(readdirSync(dataDir).filter((name) => name.startsWith("restoring-"))).toEqual([]);
  const second = await start();
  const statusOf = ({ value }: { value: string }) => second.statusOf(value);
  expect(await Promise.all([revoked, replaced, kept, late].map(statusOf))).toEqual([401, 401, 200, 401]);
  expect((await command("keys", "show", ending.id)).stdout).toMatch(/^expires/m);
  // Its name is free again, as that of one that is revoked.
  await did(...token);
});

test("what was used of a quota after the backup stays used, also where the backup knows another period or nothing of it", async () => {
  const place = embedded({ KEYRUN_PLAN_QUOTAS: "free=5/day,pro=5/month" });
  const backups = newFolder();
  const { command } = place;
  const team = async (plan: string) => {
    const id = `on-${plan}`;
    await command("teams", "create", id, "--plan", plan);
    return { id, value: (await command("keys", "create", "--team", id)).stdout.trim() };
  };
  const november = createManualClock({ monotonicMs: 0, unixMs: Date.parse("2026-11-30T12:00:00Z") });
  const first = await place.start(november);
  const [daily, monthly] = [await team("free"), await team("pro")];
  const statuses = async (
    { statusOf }: { readonly statusOf: (value: string) => Promise<number> },
    { value }: { readonly value: string },
    times: number,
  ) => {
    const all: number[] = [];
    for (let n = 0; n < times; n += 1) all.push(await statusOf(value));
    return all;
  };
  expect(await statuses(first, daily, 2)).toEqual([200, 200]);
  expect(await command("backup", join(backups, "b"))).toMatchObject({ code: 0 });
  expect(await statuses(first, daily, 2)).toEqual([200, 200]);
  expect(await command("teams", "grant", daily.id, "1")).toMatchObject({ code: 0 });
  expect(await statuses(first, monthly, 3)).toEqual([200, 200, 200]);
  await first.stop();
  await command("restore", join(backups, "b"));
  const second = await place.start(november);
  expect(await statuses(second, daily, 3)).toEqual([200, 200, 429]);
  expect(await statuses(second, monthly, 3)).toEqual([200, 200, 429]);
  await second.stop();

  // The backup of the last month.
  const december = createManualClock({ monotonicMs: 0, unixMs: Date.parse("2026-12-02T12:00:00Z") });
  const third = await place.start(december);
  expect(await statuses(third, monthly, 4)).toEqual([200, 200, 200, 200]);
  await third.stop();
  await command("restore", join(backups, "b"));
  const last = await place.start(december);
  expect(await statuses(last, monthly, 2)).toEqual([200, 429]);
});

test("a store that serves is not replaced, and one that is there is no place for a backup", async () => {
  const { command, first, key, dataDir, backups } = await served();
  const { value } = await key("a");
  await command("backup", join(backups, "b"));
  expect(await command("restore", join(backups, "b"))).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^Another Keyrun already serves the data folder .* Stop it first/),
  });
  expect(await first.statusOf(value)).toBe(200);
  expect(await command("backup", dataDir)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/is there already: name a new folder\.\n$/),
  });
});

test("a damaged backup, one without its secret, and what is none change nothing", async () => {
  const { command, first, key, dataDir, backups, start } = await served();
  const { value } = await key("a");
  await command("backup", join(backups, "b"));
  await first.stop();
  const [store, secret] = [join(backups, "b/keyrun.db"), join(backups, "b/secret")];
  const before = readdirSync(dataDir).sort();
  const refused = async (folder: string, words: RegExp) => {
    const { code, stderr } = await command("restore", folder);
    expect(stderr).toMatch(words);
    expect({ code, holds: readdirSync(dataDir).sort() }).toEqual({ code: 1, holds: before });
  };
  await refused(join(backups, "nowhere"), /^There is no keyrun\.db in .*name a folder that `backup` made/);
  const held = readFileSync(secret);
  writeFileSync(secret, `${"a".repeat(43)}\n`);
  await refused(join(backups, "b"), /made with a service secret that is not there \(version \w{8}\)/);
  writeFileSync(secret, held);
  const whole = readFileSync(store);
  truncateSync(store, whole.length / 2);
  await refused(join(backups, "b"), /^The store in .*\/b is damaged, and nothing was changed/);
  writeFileSync(store, whole);
  new DatabaseSync(store).exec("PRAGMA user_version = 999");
  await refused(join(backups, "b"), /^A newer Keyrun wrote this store/);
  expect(await (await start()).statusOf(value)).toBe(200);
});

test("over a damaged store it says that nothing is known of what was revoked since", async () => {
  const { command, first, key, dataDir, backups, start } = await served();
  const { value } = await key("a");
  await command("backup", join(backups, "b"));
  await first.stop();
  writeFileSync(join(dataDir, "keyrun.db"), "no store at all".repeat(1_000));
  writeFileSync(join(dataDir, "keyrun.db-wal"), "of another");
  const { code, stderr } = await command("restore", join(backups, "b"));
  expect(stderr).toMatch(
    /revoked since the backup is not known \(.*\), and works again, and what was used of quotas since can be used again\. Revoke those keys again/,
  );
  expect(code).toBe(0);
  expect(await (await start()).statusOf(value)).toBe(200);
});

test.each([
  ["backup", /use `mongodump`/],
  ["restore", /use `mongorestore`/],
])("where MongoDB holds the keys, %s names its tool", async (name, words) => {
  const env = {
    KEYRUN_DATA_DIR: newFolder(),
    KEYRUN_MONGODB_URI: "mongodb://127.0.0.1:1/keyrun",
    KEYRUN_SECRET: "a".repeat(43),
  };
  expect(await runCommand([name, "/nowhere"], { env })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(words),
  });
});

test("a backup of no store is refused", async () => {
  const env = { KEYRUN_DATA_DIR: newFolder() };
  const { code, stderr } = await runCommand(["backup", join(newFolder(), "b")], { env });
  expect({ code, stderr }).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^There is no store in /),
  });
});
