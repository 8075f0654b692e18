import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import { manage } from "../harness/keyrun.ts";
import { restRun, type ServingKeyrun, type Settings, serveKeyrun } from "../harness/keyrun-process.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const limit = 60;
const timeout = { timeout: 300_000 };
const folders = createTempFolders();
let fleet: Fleet;

describeFleet("processes")("one instance that becomes a fleet, and a fleet that becomes one", () => {
  beforeAll(async () => {
    fleet = await startFleet({
      in: "processes",
      size: 1,
      started: false,
      settings: { KEYRUN_PLAN_LIMITS: `free=${limit}` },
    });
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

  /**
   * Runs until the limit is reached. Returns how many were accepted, and how many got 503: of those
   * some may count, where the answer of Redis came too late.
   */
  async function spend({ publicUrl }: ServingKeyrun, value: string) {
    const spent = { accepted: 0, unanswered: 0 };
    for (;;) {
      const { status } = await restRun(publicUrl, { value });
      if (status === 429) return spent;
      if (status === 503) {
        spent.unanswered += 1;
        await pause(500);
        continue;
      }
      expect(status).toBe(200);
      spent.accepted += 1;
    }
  }

  /** What was spent within one window is the limit, neither more nor less. */
  function expectLimit({ accepted, unanswered }: Awaited<ReturnType<typeof spend>>): void {
    expect(accepted).toBeLessThanOrEqual(limit);
    expect(accepted + unanswered).toBeGreaterThanOrEqual(limit);
  }

  /** Does it again where the machine took longer than the window of the limit. */
  async function withinOneWindow(story: () => Promise<{ beganMs: number; check: () => void }>) {
    const timed = async () => {
      const { beganMs, check } = await story();
      return { check, tookMs: performance.now() - beganMs };
    };
    const tookLonger = whileAnswer(({ tookMs }: { tookMs: number }) => tookMs >= 60_000);
    const { check } = await eventually(timed, { ...tookLonger, triesMax: 3 });
    check();
  }

  test.each([
    ["alone", "fleet"],
    ["fleet", "alone"],
  ] as const)("from %s to %s a new window begins, and the limit of each is exact", timeout, (before, after) =>
    withinOneWindow(async () => {
      const first = await start(settingsOf(before));
      const manager = manage(first.internalUrl, fleet.serviceToken);
      const { value } = await manager.newKey(await manager.newTeam());
      manager.disconnect();
      const beganMs = performance.now();
      const spentBefore = await spend(first, value);
      await stop(first);

      const second = await start(settingsOf(after));
      const spentAfter = await spend(second, value);
      await stop(second);
      figure(`from ${before} to ${after}: accepted after it`, spentAfter.accepted, "requests");
      return {
        beganMs,
        check() {
          expectLimit(spentBefore);
          expectLimit(spentAfter);
        },
      };
    }),
  );
});
