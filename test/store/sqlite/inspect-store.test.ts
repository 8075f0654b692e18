import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, readdirSync, readFileSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { inspectSqliteStore } from "#src/store/sqlite/inspect-store.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { describeWith, rootMissing } from "../../harness/needs.ts";

const folders = tempFolders();

/** The user `nobody`, or any other that is not root. */
const otherUser = 65_534;

/** Looks at the store and then starts on it, as another user. Returns what each of them said. */
async function asOtherUser(dataDir: string): Promise<{ inspected: string; started: string }> {
  // The process becomes the other user after its imports, because that user may not read this
  // folder.
  const program = `
    import { inspectSqliteStore } from "#src/store/sqlite/inspect-store.ts";
    import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
    const [dataDir, user] = process.argv.slice(1);
    process.setgid(Number(user));
    process.setuid(Number(user));
    const outcome = async (work) => {
      try { await work(); return "well"; } catch (thrown) { return thrown.name + " " + thrown.message; }
    };
    const inspected = await outcome(() => inspectSqliteStore({ dataDir }));
    const started = await outcome(() => openSqliteStores({ dataDir }));
    console.log(JSON.stringify({ inspected, started }));`;
  const args = ["--input-type=module", "-e", program, dataDir, String(otherUser)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout);
}

// Only root can make the files of another user.
describeWith(rootMissing)("of two users", () => {
  test.each(["keyrun.db", "keyrun.lock"])(
    "a %s of another user is refused in the words of a start",
    async (name) => {
      const dataDir = folders.create();
      await (await openSqliteStores({ dataDir })).close();
      for (const path of [dataDir, join(dataDir, "keyrun.db"), join(dataDir, "keyrun.lock")])
        chownSync(path, otherUser, otherUser);
      expect(await asOtherUser(dataDir)).toEqual({ inspected: "well", started: "well" });

      chownSync(join(dataDir, name), 0, 0);
      // Readable for everybody, so that reading alone would find nothing.
      chmodSync(join(dataDir, name), 0o644);
      const { inspected, started } = await asOtherUser(dataDir);
      expect(started).toMatch(/^StartRefused .*can't be used as a store \(EPERM.*KEYRUN_DATA_DIR/);
      expect(started).toContain(`${name}'): user 0 owns that file. Run Keyrun as that user, give the folder`);
      expect(inspected).toBe(started);
    },
  );
});

test("a look leaves the mode of the store as it was", async () => {
  const dataDir = folders.create();
  await (await openSqliteStores({ dataDir })).close();
  const path = join(dataDir, "keyrun.db");
  chmodSync(path, 0o640);
  inspectSqliteStore({ dataDir });
  expect((statSync(path).mode & 0o7777).toString(8)).toBe("640");
});

test("a look says that the reserve for revocations is given up", async () => {
  const dataDir = folders.create();
  await (await openSqliteStores({ dataDir })).close();
  expect(inspectSqliteStore({ dataDir }).words).toMatch(/^schema \d+$/);
  truncateSync(join(dataDir, "keyrun.reserve"), 4_096);
  expect(inspectSqliteStore({ dataDir }).words).toMatch(/^schema \d+; the disk was full.+Make room/);
});

test("looks at a folder refuse no start on it at the same instant", async () => {
  const dataDir = folders.create();
  await (await openSqliteStores({ dataDir })).close();
  const program = `
    import { isServed } from "#src/store/sqlite/locked-database.ts";
    console.log("looking");
    while (process.ppid === Number(process.argv[2])) isServed(process.argv[1]);`;
  const args = ["--input-type=module", "-e", program, dataDir, String(process.pid)];
  const looks = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void looks.kill("SIGKILL"));
  await once(looks.stdout, "data");
  for (let n = 0; n < 50; n++) await (await openSqliteStores({ dataDir })).close();
  expect(looks.exitCode).toBeNull();
});

test("a look at a stopped store leaves its data as they were, and beside them only files of SQLite without data, which the next start removes when it ends", async () => {
  const dataDir = folders.create();
  await (await openSqliteStores({ dataDir })).close();
  const before = readdirSync(dataDir);
  const data = () => before.map((name) => readFileSync(join(dataDir, name)));
  const dataBefore = data();
  inspectSqliteStore({ dataDir });
  expect(data()).toEqual(dataBefore);
  const left = readdirSync(dataDir).filter((name) => !before.includes(name));
  expect(["keyrun.db-shm", "keyrun.db-wal"]).toEqual(expect.arrayContaining(left));
  const log = join(dataDir, "keyrun.db-wal");
  expect(existsSync(log) ? statSync(log).size : 0).toBe(0);
  await (await openSqliteStores({ dataDir })).close();
  expect(readdirSync(dataDir)).toEqual(before);
});
