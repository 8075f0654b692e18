import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Fleet, startFleet } from "../harness/fleet.ts";
import { missingFleetPrograms } from "../harness/fleet-programs.ts";
import { manage } from "../harness/keyrun.ts";
import { restRun, type ServingKeyrun, type Settings, serveKeyrun } from "../harness/keyrun-process.ts";
import { mongodbUri } from "../harness/mongo-databases.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { printFigures } from "../harness/test-size.ts";

const limit = 60;
const timeout = { timeout: 120_000 };
const folders = createTempFolders();
let fleet: Fleet;

const left = mongodbUri === "" || missingFleetPrograms().length > 0;

describe.skipIf(left)("one instance that becomes a fleet, and a fleet that becomes one", () => {
  beforeAll(async () => {
    fleet = await startFleet({ size: 1, started: false, settings: { KEYRUN_PLAN_LIMITS: `free=${limit}` } });
  });
  afterAll(async () => {
    await fleet?.close();
    folders.remove();
  });

  const running: ServingKeyrun[] = [];
  // By SIGTERM, or the next one waits for those that a failure left.
  afterEach(async () => {
    for (const each of running.splice(0)) {
      each.kill("SIGTERM");
      await each.exited;
    }
  });

  async function start(settings: Settings): Promise<ServingKeyrun> {
    const keyrun = await serveKeyrun(folders.create(), settings);
    running.push(keyrun);
    return keyrun;
  }

  async function stop(keyrun: ServingKeyrun): Promise<void> {
    keyrun.kill("SIGTERM");
    expect(await keyrun.exited).toEqual({ code: 0, signal: null });
  }

  function settingsOf(way: "alone" | "fleet"): Settings {
    const settings = fleet.joining();
    if (way === "fleet") return settings;
    const ofFleets = ["KEYRUN_REDIS_URL", "KEYRUN_LIMIT_FALLBACK"];
    return Object.fromEntries(Object.entries(settings).filter(([name]) => !ofFleets.includes(name)));
  }

  /** Runs until the limit is reached. Returns when each accepted request was sent. */
  async function spendAll({ publicUrl }: ServingKeyrun, value: string): Promise<number[]> {
    const acceptedMs: number[] = [];
    for (;;) {
      const sentMs = performance.now();
      const { status } = await restRun(publicUrl, { value });
      if (status !== 200) {
        expect(status).toBe(429);
        return acceptedMs;
      }
      acceptedMs.push(sentMs);
    }
  }

  test.each([
    ["alone", "fleet"],
    ["fleet", "alone"],
  ] as const)(
    "from %s to %s no team gets more than its limit in any 60 s",
    timeout,
    async (before, after) => {
      const first = await start(settingsOf(before));
      const manager = manage(first.internalUrl, fleet.serviceToken);
      const { value } = await manager.newKey(await manager.newTeam());
      manager.disconnect();
      const spent = await spendAll(first, value);
      expect(spent).toHaveLength(limit);
      await stop(first);

      const second = await start(settingsOf(after));
      const refused = await restRun(second.publicUrl, { value });
      const waitMs = Number(refused.headers.get("retry-after-ms"));
      printFigures(`from ${before} to ${after}: ${refused.status}, wait ${waitMs} ms`);
      // As without the change: a request leaves a minute after it, to the millisecond.
      const leavesMs = (spent[0] ?? 0) + 60_000 - performance.now();
      expect(leavesMs, "the machine was too slow for this test").toBeGreaterThan(0);
      expect(refused.status).toBe(429);
      expect(waitMs).toBeGreaterThan(leavesMs - 1);
      expect(waitMs).toBeLessThan(leavesMs + 5_000);
      await stop(second);
    },
  );

  async function newKey({ internalUrl }: ServingKeyrun): Promise<string> {
    const manager = manage(internalUrl, fleet.serviceToken);
    const { value } = await manager.newKey(await manager.newTeam());
    manager.disconnect();
    return value;
  }

  async function spend({ publicUrl }: ServingKeyrun, value: string, count: number): Promise<void> {
    for (let n = 0; n < count; n++) expect((await restRun(publicUrl, { value })).status).toBe(200);
  }

  test.each(["stop in one moment", "end in one moment, one of them by SIGKILL"])(
    "of two instances that %s the next one alone takes up the running minute",
    timeout,
    async (how) => {
      const [first, second] = await Promise.all([start(settingsOf("fleet")), start(settingsOf("fleet"))]);
      const value = await newKey(first);
      const startMs = performance.now();
      await spend(first, value, limit / 2);
      await spend(second, value, limit / 2);
      first.kill(how.includes("SIGKILL") ? "SIGKILL" : "SIGTERM");
      await Promise.all([stop(second), first.exited]);

      const alone = await start(settingsOf("alone"));
      const { status } = await restRun(alone.publicUrl, { value });
      expect(performance.now() - startMs, "the machine was too slow for this test").toBeLessThan(60_000);
      expect(status).toBe(429);
      await stop(alone);
    },
  );

  test(
    "from a fleet to one alone and back no team gets more than its limit in any 60 s",
    timeout,
    async () => {
      const before = await start(settingsOf("fleet"));
      const value = await newKey(before);
      const startMs = performance.now();
      await spend(before, value, 1);
      await stop(before);
      const alone = await start(settingsOf("alone"));
      await spend(alone, value, limit - 2);
      await stop(alone);
      const [after, other] = await Promise.all([start(settingsOf("fleet")), start(settingsOf("fleet"))]);
      const accepted = [...(await spendAll(after, value)), ...(await spendAll(other, value))];
      expect(performance.now() - startMs, "the machine was too slow for this test").toBeLessThan(60_000);
      expect(accepted).toHaveLength(1);
      await Promise.all([stop(after), stop(other)]);
    },
  );
});
