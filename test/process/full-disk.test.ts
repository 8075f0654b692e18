import { execFileSync } from "node:child_process";
import { closeSync, ftruncateSync, openSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { whileChanging } from "#src/audit/pending-change.ts";
import { bounds } from "#src/bounds.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { keyrunPlaces, kill, stop } from "../harness/keyrun-places.ts";
import { restRun, type ServingKeyrun } from "../harness/keyrun-process.ts";
import { auditEventOf, keyRecordOf } from "../harness/store-records.ts";

const { newFolder, place: placeOn, endAll } = keyrunPlaces();
const createKey = ["keys", "create", "--team", "demo"];

/** Whether this process may mount, as root mostly may, and in some containers may not. */
const mayMount = (() => {
  const folder = newFolder();
  try {
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", folder], { stdio: "ignore" });
    execFileSync("umount", [folder]);
    return true;
  } catch {
    return false;
  }
})();

describe.skipIf(!mayMount)("on a disk of its own that is full", { timeout: 240_000 }, () => {
  /** A file system of 64 MiB. `leave` fills it but for so many bytes. */
  function mountDisk() {
    const mount = newFolder();
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", mount]);
    onTestFinished(async () => {
      await endAll();
      execFileSync("umount", [mount]);
    });
    const leave = (bytes: number) => {
      const file = openSync(join(mount, "fill"), "a");
      const block = Buffer.alloc(4_096);
      let size = 0;
      try {
        for (;;) size += writeSync(file, block);
      } catch (thrown) {
        expect(thrown).toMatchObject({ code: "ENOSPC" });
      }
      ftruncateSync(file, size - bytes);
      closeSync(file);
    };
    return { dataDir: join(mount, "data"), leave, free: () => rmSync(join(mount, "fill")) };
  }

  test("a start goes on, runs are answered, the stop is clean, and all is well once there is room", async () => {
    const { dataDir, leave, free } = mountDisk();
    const place = placeOn({}, dataDir);
    const first = await place.start();
    const value = await place.newKey();
    await stop(first);

    leave(0);
    const second = await place.start();
    expect(second.stderr()).toContain("grpc-address");
    expect((await restRun(second.publicUrl, { value })).status).toBe(200);
    const command = () => place.command(createKey, portOf(second));
    const refused = await command();
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain("no room left");
    free();
    expect((await command()).code).toBe(0);
    leave(0);
    await stop(second);

    free();
    const third = await place.start();
    expect((await restRun(third.publicUrl, { value })).status).toBe(200);
    expect(linesOfDisk(third.stderr())).toEqual([]);
  });

  test("a revocation is final, also after kill -9, and no other change takes the room that is kept for it", async () => {
    const { dataDir, leave, free } = mountDisk();
    const place = placeOn({}, dataDir);
    const reserveBytes = () => statSync(join(dataDir, "keyrun.reserve")).size;
    const first = await place.start();
    const values = [await place.newKey(), await place.newKey(), await place.newKey()];
    const [leaked = "", lost = "", kept = ""] = values;
    await stop(first);
    expect(reserveBytes()).toBe(bounds.storeReserveBytes);

    leave(0);
    const second = await place.start();
    const command = (args: readonly string[]) => place.command(args, portOf(second));
    expect((await command(createKey)).stderr).toContain("no room left");
    expect(reserveBytes()).toBe(bounds.storeReserveBytes);
    // Both the key's finder and the operator end a key.
    expect(await report(second, leaked)).toMatchObject({ status: 200 });
    expect(await command(["keys", "revoke", "--team", "demo", lost.slice(4, 28)])).toMatchObject({ code: 0 });
    expect(reserveBytes()).toBeLessThan(bounds.storeReserveBytes);
    const statuses = async ({ publicUrl }: ServingKeyrun) =>
      Promise.all(values.map(async (value) => (await restRun(publicUrl, { value })).status));
    expect(await statuses(second)).toEqual([401, 401, 200]);
    // The piece that was given up is larger than what the revocations took.
    expect((await command(createKey)).stderr).toContain("no room left");
    await kill(second);

    const third = await place.start();
    expect(await statuses(third)).toEqual([401, 401, 200]);
    const commandNow = (args: readonly string[]) => place.command(args, portOf(third));
    expect((await commandNow(createKey)).stderr).toContain("no room left");
    const { stdout: events } = await commandNow(["audit", "--json"]);
    for (const action of ["key.revoke_leaked", "key.revoke"]) {
      expect(events.match(new RegExp(`"${action}"`, "g"))).toHaveLength(1);
    }
    expect(await report(third, kept)).toMatchObject({ status: 200 });
    for (const { stderr } of [second, third])
      expect(reserveLines(stderr())).toMatchObject([{ level: "warn" }]);

    free();
    expect(await commandNow(createKey)).toMatchObject({ code: 0 });
    expect(reserveBytes()).toBe(bounds.storeReserveBytes);
    expect(reserveLines(third.stderr())).toMatchObject([{ level: "warn" }, { level: "info" }]);
    expect(await statuses(third)).toEqual([401, 401, 401]);
  });

  test("without room for the reserve a start says so and serves, and makes it once there is room", async () => {
    const { dataDir, leave, free } = mountDisk();
    leave(2 * 1_024 * 1_024);
    const { command, start } = placeOn({}, dataDir);
    const keyrun = await start();
    expect(reserveLines(keyrun.stderr())).toMatchObject([
      { level: "warn", msg: expect.stringContaining("no room") },
    ]);
    expect(readdirSync(dataDir)).not.toContain("keyrun.reserve");
    expect(await command(createKey)).toMatchObject({ code: 0 });
    free();
    expect(await command(createKey)).toMatchObject({ code: 0 });
    expect(statSync(join(dataDir, "keyrun.reserve")).size).toBe(bounds.storeReserveBytes);
    expect(reserveLines(keyrun.stderr())).toMatchObject([{ level: "warn" }, { level: "info" }]);
  });

  test("each of very many revocations is written with its event, and no creation in between is", async () => {
    const { dataDir, leave } = mountDisk();
    const open = () => openSqliteStores({ dataDir });
    const count = campaignSize("full-disk");
    const ids = Array.from({ length: count }, (_, n) => `key${(n * 7_919) % 1_000_003}`);
    let events = 0;
    const change = <T>(work: () => Promise<T>) => {
      const event = auditEventOf({
        id: `event${events}`,
        timeMs: events,
        action: "key.revoke",
        teamId: "demo",
      });
      events++;
      return whileChanging({ isDue: true, record: () => event, written() {} }, work);
    };
    const first = await open();
    const insert = ({ keys }: Stores, id: string) =>
      keys.insert(keyRecordOf({ id, teamId: "demo", label: `the label of ${id}` }), { activeMax: count });
    for (const id of ids) await change(() => insert(first, id));
    await first.close();

    leave(0);
    // SQLite has to begin a log, of which it has no block.
    const stores = await open();
    onTestFinished(stores.close);
    for (const [n, keyId] of ids.entries()) {
      const order = { teamId: "demo", keyId, revokeTimeMs: n, revokedBy: "ada@example.com" };
      expect(await change(() => stores.keys.revoke(order))).toMatchObject({ revokeTimeMs: n });
      if (n % 50 > 0) continue;
      const creation = change(() => insert(stores, `new${n}`));
      await expect(creation).rejects.toMatchObject({ reason: "STORE_FULL" });
    }
    expect(await stores.keys.countActive("demo")).toBe(0);
    expect(await stores.audit.list({ limit: 3 * count })).toHaveLength(2 * count);
    const left = statSync(join(dataDir, "keyrun.reserve")).size;
    figure("bytes left of the reserve", left);
  });

  test("a first start is refused in one sentence or serves, whatever room there is", async () => {
    const { dataDir, leave, free } = mountDisk();
    const settings = { KEYRUN_DATA_DIR: dataDir, KEYRUN_SECRET: undefined };
    const outcomes = new Set<string>();
    for (const kibibytes of [0, 64, 128, 192, 256, 480]) {
      leave(kibibytes * 1_024);
      const outcome: unknown = await startKeyrun({ settings }).catch((thrown: unknown) => thrown);
      if (outcome instanceof Error) {
        expect(outcome).toBeInstanceOf(StartRefused);
        expect(outcome.message).toMatch(/^.+room[^\n]+$/);
      } else await (outcome as Keyrun).close();
      outcomes.add(outcome instanceof Error ? "refused" : "serves");
      rmSync(dataDir, { recursive: true });
      free();
    }
    expect(outcomes).toEqual(new Set(["serves", "refused"]));
  });
});

/** The setting with which a command finds a server without a file of its address. */
function portOf({ internalUrl }: ServingKeyrun) {
  return { KEYRUN_GRPC_PORT: new URL(internalUrl).port };
}

/** Sends the key as one that was found. */
function report({ publicUrl }: ServingKeyrun, value: string): Promise<Response> {
  return fetch(`${publicUrl}/api/keys/revoke-leaked`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ value }),
  });
}

/** The lines of the log about the blocks that are kept for revocations. */
function reserveLines(stderr: string): unknown[] {
  return linesOfDisk(stderr)
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => /the reserve/.test(msg));
}

/** The log without the audit log, and without what a busy machine adds. */
function linesOfDisk(stderr: string): string[] {
  return stderr.split("\n").filter((line) => line !== "" && !/"msg":"(audit"|the event loop is)/.test(line));
}
