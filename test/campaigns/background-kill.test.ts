import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { campaignSize } from "../harness/campaigns.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet } from "../harness/fleet.ts";
import type { IssuedKey } from "../harness/keyrun.ts";
import {
  inFleet,
  inFolder,
  type KilledPlace,
  killAndCheck,
  type Running,
  type Writer,
} from "../harness/kills.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

const app = closedAtEnd(await startScriptedApp());

const cycles = campaignSize("background-kills");

test(
  `kill -9 at any point: every run that was answered 202 has an end after the next start, and none was started twice, ${cycles} times over`,
  {
    timeout: 180_000 + cycles * 20_000,
  },
  () => killRuns(inFolder({ KEYRUN_APP_BACKGROUND_RUNS_MAX: "4096" }), cycles),
);

describeFleet("processes")("instances on MongoDB", () => {
  test(
    `the same of one that is alone there, ${cycles} times over`,
    {
      timeout: 180_000 + cycles * 60_000,
    },
    async () => killRuns(await inFleet(1), cycles),
  );

  const fleetCycles = Math.ceil(0.3 * cycles);
  test(
    `the same of one of three, ${fleetCycles} times over`,
    {
      timeout: 180_000 + fleetCycles * 60_000,
    },
    async () => killRuns(await inFleet(3), fleetCycles),
  );
});

async function killRuns(place: KilledPlace, kills: number): Promise<void> {
  const writer = runWriter();
  await killAndCheck(place, writer, kills);
  expect(writer.figures().accepted).toBeGreaterThan(5 * kills);
  expect(writer.figures().interrupted).toBeGreaterThan(0);
  expect(writer.figures().succeeded).toBeGreaterThan(0);
}

/** Then another team begins: FerretDB reads all that is kept for each question about some of it. */
const cyclesOfTeam = 20;

interface Read {
  readonly runId: string;
  readonly state: string;
  readonly text?: string;
  readonly error?: { readonly code: string };
}

/**
 * Starts runs in the background, some of which hang until the kill, and reads what came of each
 * that was answered 202.
 */
function runWriter(): Writer {
  /** The texts of the runs that were answered 202, by id, until they are checked. */
  let unchecked = new Map<string, string>();
  /** An end that was read once stays as it was. */
  const ended = new Map<string, string>();
  let key: IssuedKey | undefined;
  let [accepted, target, succeeded, interrupted, startedTwice] = [0, 0, 0, 0, 0];

  async function call(url: string, init: RequestInit = {}): Promise<Response | undefined> {
    const headers = {
      authorization: `Bearer ${key?.value}`,
      "content-type": "application/json",
      ...init.headers,
    };
    return fetch(url, { ...init, headers }).catch(() => undefined);
  }

  async function some({ publicUrl }: Running): Promise<void> {
    const text = `${Math.random() < 0.4 ? "hang" : "hello"} ${randomUUID()}`;
    const answer = await call(`${publicUrl}/api/apps/counted/run`, {
      method: "POST",
      headers: { prefer: "respond-async", ...(Math.random() < 0.5 && { "idempotency-key": randomUUID() }) },
      body: JSON.stringify({ text }),
    });
    if (answer?.status !== 202) {
      await answer?.body?.cancel();
      return pause(5);
    }
    const { runId } = (await answer.json().catch(() => ({}))) as Partial<Read>;
    if (runId === undefined) return;
    unchecked.set(runId, text);
    accepted += 1;
  }

  /** The run once it has an end. */
  async function endOf(url: string, runId: string): Promise<Read> {
    const read = async () => {
      // What hangs on an instance that lives ends, too: its app fails.
      app.drop();
      const answer = await call(`${url}/api/runs/${runId}`);
      // An instance that has just come back may not answer at once.
      if (answer === undefined || answer.status === 503) return undefined;
      expect(answer.status).toBe(200);
      return (await answer.json()) as Read;
    };
    const isNone = (run: Read | undefined) => run === undefined || run.state === "RUN_STATE_RUNNING";
    const run = await eventually(read, { ...whileAnswer(isNone), triesMax: 120, pauseMs: 500 });
    return run ?? expect.unreachable();
  }

  async function check(url: string, [runId, text]: [string, string], running: number): Promise<string[]> {
    const { state, error, text: output } = await endOf(url, runId);
    const wrong: string[] = [];
    const what = `${runId} ${text}: ${state} ${error?.code ?? output}`;
    const starts = app.starts(text);
    if (starts > 1) startedTwice += 1;
    if (starts > 1) wrong.push(`${what}, started ${starts} times`);
    if (state === "RUN_STATE_SUCCEEDED") succeeded += 1;
    if (error?.code === "run_interrupted") interrupted += 1;
    const isRight =
      (state === "RUN_STATE_SUCCEEDED" && output === text.toUpperCase() && starts === 1) ||
      (state === "RUN_STATE_FAILED" && error?.code === "run_interrupted") ||
      // It hung on an instance that lives.
      (running > 1 && state === "RUN_STATE_FAILED" && error?.code === "app_failed");
    if (!isRight) wrong.push(what);
    if ((ended.get(runId) ?? what) !== what) wrong.push(`${what}, and before ${ended.get(runId)}`);
    ended.set(runId, what);
    return wrong;
  }

  return {
    async write(running, cycle, isOver) {
      const { manager } = running[0]!;
      if (key === undefined) await manager.apps.createApp({ app: { id: "counted", backend: app.backend } });
      if (cycle % cyclesOfTeam === 0) {
        // All its runs are checked, and no kill is due.
        target = 0;
        if (key !== undefined) {
          await manager.keys.revokeKey({ teamId: key.teamId, keyId: key.id });
          await manager.teams.deleteTeam({ teamId: key.teamId });
        }
        key = await manager.newKey(await manager.newTeam());
        ended.clear();
      }
      target = accepted + 20 + ((cycle * 29) % 41);
      const lane = async (one: Running) => {
        while (!isOver()) await some(one);
      };
      await Promise.all(running.flatMap((each) => [lane(each), lane(each), lane(each)]));
    },
    isDue: () => accepted >= target && target > 0,
    laterMsMax: 12,
    async wrong(running) {
      const checked = unchecked;
      unchecked = new Map();
      const urls = running.map(({ publicUrl }) => publicUrl);
      const left = [...checked];
      const wrong: string[] = [];
      const lane = async (place: number) => {
        for (let one = left.pop(); one; one = left.pop()) {
          wrong.push(...(await check(urls[place % urls.length]!, one, running.length)));
        }
      };
      await Promise.all(Array.from({ length: 8 }, (_, place) => lane(place)));
      return wrong;
    },
    figures: () => ({ accepted, succeeded, interrupted, "started twice": startedTwice }),
  };
}
