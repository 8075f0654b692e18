import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, mkdirSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { keyRecordOf, newAppOf, teamRecordOf } from "../../harness/store-records.ts";
import { lostWrites, nothingAcknowledged, writeUntilKilled } from "../killed-writer.ts";

const killsMin = 20;

const folders = tempFolders();

/** Opens the folder in another process. Returns "opened", or the name and message of the error. */
async function openElsewhere(dataDir: string): Promise<string> {
  const program = `
    import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
    try { await openSqliteStores({ dataDir: process.argv[1] }); console.log("opened"); }
    catch (thrown) { console.log(thrown.name, thrown.message); }`;
  const args = ["--input-type=module", "-e", program, dataDir];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return stdout;
}

test("a second process on the same folder is refused with a reason, until the first has closed", async () => {
  const dataDir = folders.create();
  const stores = await openSqliteStores({ dataDir });
  const refused = await openElsewhere(dataDir);
  expect(refused).toContain("StartRefused Another Keyrun already serves the data folder");
  expect(refused).toContain("KEYRUN_DATA_DIR");
  // The refused opening left the lock and the store as they were.
  await stores.teams.insert(teamRecordOf({ id: "demo" }));
  expect(await openElsewhere(dataDir)).toContain("StartRefused");
  await stores.close();
  expect(await openElsewhere(dataDir)).toBe("opened\n");
});

test("a second opening in the same process is refused, and the first keeps its lock", async () => {
  const dataDir = folders.create();
  const stores = await openSqliteStores({ dataDir });
  await expect(openSqliteStores({ dataDir })).rejects.toThrow(StartRefused);
  // A careless open and close of a file drops all locks that the process has on it.
  expect(await openElsewhere(dataDir)).toContain("StartRefused");
  await stores.teams.insert(teamRecordOf({ id: "demo" }));
  await stores.close();
});

test(`kill -9 in a loop of writes, ${killsMin} times, loses and revives nothing acknowledged`, async () => {
  const dataDir = folders.create();
  const acknowledged = nothingAcknowledged();
  for (let life = 0; life < killsMin; life++) {
    // A different place in the loop each time: after a creation, a use, a revocation, a deletion.
    const lines = 5 + ((life * 13) % 40);
    await writeUntilKilled(acknowledged, { place: dataDir, firstNumber: life * 1_000_000, lines });
  }
  const stores = await openSqliteStores({ dataDir });
  expect(acknowledged.revoked.size).toBeGreaterThan(killsMin);
  expect(await lostWrites(stores, acknowledged)).toEqual([]);
  await stores.close();
});

test("only its owner may use the folder and every file in it", async () => {
  const dataDir = join(folders.create(), "a", "b");
  const stores = await openSqliteStores({ dataDir });
  await stores.teams.insert(teamRecordOf({ id: "demo" }));
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
  expect(mode(dataDir)).toBe("700");
  for (const name of ["keyrun.db", "keyrun.db-wal", "keyrun.db-shm", "keyrun.lock", "keyrun.reserve"]) {
    expect([name, mode(join(dataDir, name))]).toEqual([name, "600"]);
  }
  await stores.close();
});

test("a store that a newer Keyrun wrote is refused with a reason, and left as it was", async () => {
  const dataDir = folders.create();
  await (await openSqliteStores({ dataDir })).close();
  const db = new DatabaseSync(join(dataDir, "keyrun.db"));
  db.exec("PRAGMA user_version = 1000");
  await expect(openSqliteStores({ dataDir })).rejects.toThrow(/newer Keyrun .* number 1000/);
  expect(db.prepare("PRAGMA user_version").get()).toEqual({ user_version: 1000 });
  db.close();
});

test("a path that can't be a store is refused with a reason that names the setting, and the lock is released", async () => {
  const notAFolder = join(folders.create(), "file");
  writeFileSync(notAFolder, "");
  await expect(openSqliteStores({ dataDir: notAFolder })).rejects.toThrow(/can't be used .*KEYRUN_DATA_DIR/);

  const dataDir = folders.create();
  writeFileSync(
    join(dataDir, "keyrun.db"),
    "this is not a database, though it is as long as the header of one ".repeat(9),
  );
  for (let attempt = 0; attempt < 2; attempt++) {
    const refusal = await openSqliteStores({ dataDir }).catch((thrown: unknown) => thrown);
    expect(refusal).toBeInstanceOf(StartRefused);
    expect((refusal as Error).message).toMatch(/can't be used .*not a database.*KEYRUN_DATA_DIR/);
  }
});

test("a folder whose lock can't be opened is refused with the same sentence", async () => {
  const dataDir = folders.create();
  // A folder in its place: even root can't open it as a file, whatever its mode.
  mkdirSync(join(dataDir, "keyrun.lock"));
  const refusal = await openSqliteStores({ dataDir }).catch((thrown: unknown) => thrown);
  expect(refusal).toBeInstanceOf(StartRefused);
  expect((refusal as Error).message).toMatch(/can't be used as a store .*KEYRUN_DATA_DIR/);
});

// In another process, which can be ended: under /proc, Node's own recursive mkdir never returns.
test.skipIf(process.platform !== "linux")(
  "a folder that can't be created is refused with the same sentence, and at once",
  async () => {
    expect(await openElsewhere("/proc/nowhere/data")).toMatch(
      /^StartRefused .*can't be used as a store \(ENOENT.*KEYRUN_DATA_DIR/,
    );
  },
);

test("while another program holds the write lock, writes are UNAVAILABLE and reads go on", async () => {
  const dataDir = folders.create();
  const stores = await openSqliteStores({ dataDir });
  await stores.teams.insert(teamRecordOf({ id: "demo" }));
  const other = new DatabaseSync(join(dataDir, "keyrun.db"));
  other.exec("BEGIN IMMEDIATE");
  await expect(stores.teams.update("demo", { plan: "pro" })).rejects.toMatchObject({
    reason: "UNAVAILABLE",
    retryAfterMs: 1_000,
  });
  expect((await stores.teams.find("demo"))?.plan).toBe("free");
  other.exec("ROLLBACK");
  expect((await stores.teams.update("demo", { plan: "pro" }))?.plan).toBe("pro");
  other.close();
  await stores.close();
});

test("a deleted app's row holds no credentials", async () => {
  const dataDir = folders.create();
  const stores = await openSqliteStores({ dataDir });
  const headers = [{ name: "authorization", value: "Bearer of-the-app" }];
  await stores.apps.insert(newAppOf({ id: "a", backend: { kind: "http", url: "http://a/", headers } }));
  await stores.apps.delete("a");
  const db = new DatabaseSync(join(dataDir, "keyrun.db"), { readOnly: true });
  expect(JSON.stringify(db.prepare("SELECT * FROM apps").all())).not.toContain("of-the-app");
  db.close();
  await stores.close();
});

test("a row that does not fit the schema is INTERNAL, and the cause names the place but no value", async () => {
  const dataDir = folders.create();
  const stores = await openSqliteStores({ dataDir });
  const headers = [{ name: "authorization", value: "Bearer of-the-app" }];
  await stores.apps.insert(newAppOf({ id: "a", backend: { kind: "http", url: "http://a/", headers } }));
  const db = new DatabaseSync(join(dataDir, "keyrun.db"));
  for (const damage of ["substr(backend, 1, length(backend) - 4)", "replace(backend, 'value', 'worth')"]) {
    db.exec(`UPDATE apps SET backend = ${damage}`);
    const refusal = await stores.apps.find("a").catch((thrown: unknown) => thrown);
    expect(refusal).toMatchObject({ reason: "INTERNAL" });
    const cause = String((refusal as Error).cause);
    expect(cause).toContain("apps/a does not fit the store's schema at backend");
    expect(cause).not.toContain("of-the");
  }
  db.close();
  await stores.close();
});

test("the checks of one round read every part of the keys, so one damaged page is found, and stays found", async () => {
  const dataDir = folders.create();
  const stores = await openSqliteStores({ dataDir });
  // Ids all over the range, as real ones are.
  const ids = Array.from({ length: 2_000 }, (_, n) => createHash("md5").update(String(n)).digest("hex"));
  for (const id of ids) await stores.keys.insert(keyRecordOf({ id, teamId: "demo" }), { activeMax: 5_000 });
  await stores.close();
  const path = join(dataDir, "keyrun.db");
  const file = openSync(path, "r+");
  const pageBytes = 4_096;
  const bytes = readFileSync(path);
  // The leaf page of the table of keys (10 is a leaf of its kind) that holds one of the ids.
  const found = Array.from({ length: bytes.length / pageBytes }, (_, n) => n * pageBytes).filter(
    (at) => bytes[at] === 10 && bytes.subarray(at, at + pageBytes).includes(`digest-of-${ids[0]}`),
  );
  expect(found).toHaveLength(1);
  writeSync(file, Buffer.alloc(pageBytes, 0xab), 0, pageBytes, found[0]);
  closeSync(file);

  const reopened = await openSqliteStores({ dataDir });
  const answered: boolean[] = [];
  for (let n = 0; n < 1_024; n++) {
    answered.push(
      await reopened.check().then(
        () => true,
        () => false,
      ),
    );
  }
  const first = answered.indexOf(false);
  expect(first).toBeGreaterThan(0);
  expect(answered.slice(first)).not.toContain(true);
  await reopened.close();
});
