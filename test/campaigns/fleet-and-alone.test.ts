import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import { manage } from "../harness/keyrun.ts";
import {
  restRun,
  type ServingKeyrun,
  type Settings,
  servedRun,
  serveKeyrun,
} from "../harness/keyrun-process.ts";
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
   * Runs until the limit is reached, or so many were accepted. Returns when each accepted request
   * was sent and answered, and how many got 503: of those some may count, where the answer of Redis
   * came too late.
   */
  async function spend({ publicUrl }: ServingKeyrun, value: string, count = Number.POSITIVE_INFINITY) {
    const accepted: { sentMs: number; answeredMs: number }[] = [];
    let unanswered = 0;
    while (accepted.length < count) {
      const sentMs = performance.now();
      const { status } = await restRun(publicUrl, { value });
      if (status === 429) break;
      if (status === 503) {
        unanswered += 1;
        await pause(500);
        continue;
      }
      expect(status).toBe(200);
      accepted.push({ sentMs, answeredMs: performance.now() });
    }
    return { accepted, unanswered };
  }

  type Spent = Awaited<ReturnType<typeof spend>>;

  /** What was spent within one window is the limit, neither more nor less. */
  function expectLimit(spent: readonly Spent[]): void {
    const accepted = spent.reduce((sum, each) => sum + each.accepted.length, 0);
    const unanswered = spent.reduce((sum, each) => sum + each.unanswered, 0);
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
  ] as const)("from %s to %s no team gets more than its limit in any 60 s", timeout, (before, after) =>
    withinOneWindow(async () => {
      const first = await start(settingsOf(before));
      const manager = manage(first.internalUrl, fleet.serviceToken);
      const { value } = await manager.newKey(await manager.newTeam());
      manager.disconnect();
      const spent = await spend(first, value);
      await stop(first);

      const second = await start(settingsOf(after));
      const sentMs = performance.now();
      const refused = await servedRun(second.publicUrl, { value });
      const answeredMs = performance.now();
      const waitMs = Number(refused.headers.get("retry-after-ms"));
      figure(`from ${before} to ${after}: ${refused.status} with a wait of`, waitMs, "ms");
      await stop(second);
      const [oldest = { sentMs: 0, answeredMs: 0 }] = spent.accepted;
      return {
        beganMs: oldest.sentMs,
        check() {
          expectLimit([spent]);
          expect(refused.status).toBe(429);
          // As without the change: a request leaves a minute after it, to the millisecond.
          expect(answeredMs + waitMs).toBeGreaterThan(oldest.sentMs + 60_000 - 1);
          expect(sentMs + waitMs).toBeLessThan(oldest.answeredMs + 60_000 + 5_000);
        },
      };
    }),
  );

  async function newKey({ internalUrl }: ServingKeyrun): Promise<string> {
    const manager = manage(internalUrl, fleet.serviceToken);
    const { value } = await manager.newKey(await manager.newTeam());
    manager.disconnect();
    return value;
  }

  test.each(["stop in one moment", "end in one moment, one of them by SIGKILL"])(
    "of two instances that %s the next one alone takes up the running minute",
    timeout,
    (how) =>
      withinOneWindow(async () => {
        const [first, second] = await Promise.all([start(settingsOf("fleet")), start(settingsOf("fleet"))]);
        const value = await newKey(first);
        const startMs = performance.now();
        const spent = [await spend(first, value, limit / 2), await spend(second, value, limit / 2)];
        first.kill(how.includes("SIGKILL") ? "SIGKILL" : "SIGTERM");
        await Promise.all([stop(second), first.exited]);

        const alone = await start(settingsOf("alone"));
        const { status } = await servedRun(alone.publicUrl, { value });
        const check = () => {
          expectLimit(spent);
          expect(status).toBe(429);
        };
        const took = { beganMs: startMs, check };
        await stop(alone);
        return took;
      }),
  );

  test("from a fleet to one alone and back no team gets more than its limit in any 60 s", timeout, () =>
    withinOneWindow(async () => {
      const before = await start(settingsOf("fleet"));
      const value = await newKey(before);
      const startMs = performance.now();
      const spent = [await spend(before, value, 1)];
      await stop(before);
      const alone = await start(settingsOf("alone"));
      spent.push(await spend(alone, value, limit - 2));
      await stop(alone);
      const [after, other] = await Promise.all([start(settingsOf("fleet")), start(settingsOf("fleet"))]);
      for (const each of [after, other]) spent.push(await spend(each, value));
      await Promise.all([stop(after), stop(other)]);
      return {
        beganMs: startMs,
        check: () => expectLimit(spent),
      };
    }),
  );
});
