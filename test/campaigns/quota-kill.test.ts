import { randomBytes, randomInt, randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import type { Quota } from "#gen/keyrun/v1/quota_pb.ts";
import { campaignSize, figures } from "../harness/campaigns.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { eventually, Undecided, whileBusy } from "../harness/eventually.ts";
import { describeFleet, startFleet } from "../harness/fleet.ts";
import type { IssuedKey } from "../harness/keyrun.ts";
import {
  inFleet,
  inFolder,
  type KilledPlace,
  killAndCheck,
  type Running,
  type Writer,
} from "../harness/kills.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { until } from "../harness/until.ts";

const app = closedAtEnd(await startScriptedApp());

const limit = 3_000;
const settings = { KEYRUN_PLAN_QUOTAS: `free=${limit}/month` };
/** Of a refusal where another instance may still give requests back, at most. */
const idleS = 10;
/** The kill comes after so many refusals, if not before. */
const refusalsOfKill = 40;
/** Callers of one instance. */
const lanes = 4;
/** What is granted before each kill, and the part of what is left that is asked for before it. */
const given = [0, 40, 1_500, 300, 1] as const;
const shares = [0.5, 2, 0.7, 0.9] as const;
/** Granted while the kill comes, so that some answers are lost. */
const grants = { most: 6, requests: 7 } as const;

const kills = campaignSize("quota-kills");

test(
  `kill -9 in the middle of a month's last requests: none over, and at most a block lost by each of ${kills}`,
  { timeout: 180_000 + kills * 20_000 },
  () => killAndCount(inFolder(settings), kills),
);

describeFleet("processes")("instances on MongoDB", () => {
  const databases = createMongoDatabases();
  afterAll(databases.drop);

  const killsAlone = Math.ceil(0.3 * kills);
  test(`the same of kill -9 of one that is alone there, without Redis, ${killsAlone} times over`, {
    timeout: 180_000 + killsAlone * 60_000,
  }, () => {
    const secret = randomBytes(32).toString("hex");
    const uri = databases.createUri();
    const place = inFolder({ ...settings, KEYRUN_MONGODB_URI: uri, KEYRUN_SECRET: secret });
    return killAndCount({ ...place, store: "MongoDB" }, killsAlone);
  });

  test(
    `the same of kill -9 of one of three that share a quota, ${kills} times over`,
    { timeout: 180_000 + kills * 60_000 },
    async () => killAndCount(await inFleet(3, settings), kills),
  );

  test("clean stops of three lose nothing, and every request of it is admitted", {
    timeout: 240_000,
  }, async () => {
    const fleet = await startFleet({ in: "processes", settings });
    try {
      const running = fleet.members.map(({ publicUrl, place }) => ({
        publicUrl,
        manager: fleet.manage(place),
      }));
      const team = await openTeam(running[0]!);
      for (const [turn, member] of fleet.members.entries()) {
        let hasEnded = false;
        const calling = team.callAt(running, () => hasEnded);
        await until(() => team.admitted() > ((turn + 1) * limit) / 5, 1);
        await member.stop();
        hasEnded = true;
        await calling;
        await member.start();
      }
      await team.spendAll(running);
      figures("clean stops", team.figures());
      expect(team.wrong()).toEqual([]);
      expect(team.admitted()).toBe(limit);
    } finally {
      await fleet.close();
    }
  });
});

async function killAndCount(place: KilledPlace, cycles: number): Promise<void> {
  const writer = quotaWriter();
  await killAndCheck(place, writer, cycles);
  expect(writer.figures().admitted).toBeGreaterThan(0.9 * limit);
  expect(writer.figures()["refused by the quota"]).toBeGreaterThan(refusalsOfKill);
}

/** Spends the quota of one team, and grants it more, while instances are killed. */
function quotaWriter(): Writer {
  let team: Awaited<ReturnType<typeof openTeam>> | undefined;
  /** Once so many are admitted, or refused, it is time for the kill. */
  let due: { readonly admitted: number; readonly refused: number } | undefined;
  let [leftBefore, lostMax] = [0, 0];
  return {
    async write(running, cycle, isOver) {
      due = undefined;
      team ??= await openTeam(running[0]!);
      const left = await team.grant(running, given[cycle % given.length]!);
      // What the killed one holds was claimed since the kill before this one.
      lostMax += blockOf(Math.max(left, leftBefore) + grants.most * grants.requests);
      leftBefore = left;
      const wanted = Math.floor(left * shares[cycle % shares.length]!);
      due = { admitted: team.admitted() + wanted, refused: team.refused() + refusalsOfKill };
      await Promise.all([team.callAt(running, isOver), team.grantSome(running, isOver)]);
    },
    isDue: () => !!team && !!due && (team.admitted() >= due.admitted || team.refused() >= due.refused),
    laterMsMax: 12,
    async wrong(running, isLast) {
      if (!team) return [];
      await team.settleGrants(running);
      const wrong = [...team.wrong()];
      if (!isLast) return wrong;
      await team.spendAll(running);
      wrong.push(...team.wrong());
      const { lost, "without an answer, and not started": unknown } = team.figures();
      if (lost > lostMax + unknown) wrong.push(`lost ${lost}: more than ${lostMax} and ${unknown} unknown`);
      return wrong;
    },
    figures: () => ({ ...team?.figures(), "a block for each kill": lostMax }),
  };
}

/** The most that one instance may hold where so many are left, or were and came back. */
function blockOf(left: number): number {
  const block = (requests: number) => Math.max(1, Math.floor(requests / 50));
  return block(left + 3 * block(left));
}

/** A team with a quota and one key, whose requests are counted by the app that they reach. */
async function openTeam({ manager }: Running) {
  await manager.apps.createApp({ app: { id: "counted", backend: app.backend } });
  const key = await manager.newKey(await manager.newTeam());
  const startsBefore = app.all().size;
  const callOnce = caller(key);
  const counts = { sent: 0, refused: 0, unavailable: 0 };
  const faults = new Set<string>();
  const unanswered = new Set<string>();
  /** What was granted for certain, and the orders without an answer. */
  let granted = 0;
  const unsettled = new Map<string, number>();
  let periodEnd: bigint | undefined;
  const admitted = () => app.all().size - startsBefore;
  const lostRequests = () => [...unanswered].filter((text) => app.starts(text) === 0).length;

  /** Sends one request. Returns for how long a refusal says to wait. */
  async function send(one: Running): Promise<number | undefined> {
    const text = randomUUID();
    counts.sent += 1;
    const answer = await callOnce(one.publicUrl, text);
    if (answer === undefined) unanswered.add(text);
    else if (answer.status === 503) counts.unavailable += 1;
    else if (answer.status === 429) counts.refused += 1;
    const isWrong =
      (answer !== undefined && (answer.status === 200) !== (app.starts(text) === 1)) ||
      (answer && ![200, 429, 503].includes(answer.status)) ||
      (answer?.status === 429 && answer.code !== "quota_exceeded");
    if (isWrong) faults.add(`${answer?.status} ${answer?.code}, started ${app.starts(text)} times`);
    if (answer?.status !== 200) await pause(5);
    return answer?.retryAfter;
  }

  function stateOf(quota: Quota | undefined) {
    const { limit = 0n, granted = 0n, used = 0n, resetTime } = quota ?? {};
    periodEnd ??= resetTime?.seconds;
    if (resetTime?.seconds !== periodEnd) throw new Undecided("the month has turned meanwhile");
    return { granted: Number(granted), left: Number(limit + granted - used) };
  }

  async function order({ manager: { teams } }: Running, requestId: string, requests: number) {
    const { quota } = await teams.grantRequests({
      ...{ teamId: key.teamId, requestId, requests: BigInt(requests) },
    });
    if (unsettled.delete(requestId)) granted += requests;
    return stateOf(quota);
  }

  return {
    admitted,
    refused: () => counts.refused,
    /** Returns what is left after it. */
    async grant([one]: readonly Running[], requests: number): Promise<number> {
      const requestId = randomUUID();
      if (requests > 0) {
        unsettled.set(requestId, requests);
        return (await eventually(() => order(one!, requestId, requests), whileBusy)).left;
      }
      const { teams } = one!.manager;
      const { quota } = await eventually(() => teams.getRateLimit({ teamId: key.teamId }), whileBusy);
      return stateOf(quota).left;
    },
    /** Some grants, each sent to all instances at once. */
    async grantSome(running: readonly Running[], isOver: () => boolean): Promise<void> {
      for (let n = 0; n < grants.most && !isOver(); n += 1) {
        const requestId = randomUUID();
        unsettled.set(requestId, grants.requests);
        await Promise.allSettled(running.map((one) => order(one, requestId, grants.requests)));
        await pause(randomInt(100));
      }
    },
    /** Repeats the grants without an answer, which may have been done. */
    async settleGrants([one]: readonly Running[]): Promise<void> {
      for (const [requestId, requests] of unsettled) {
        await eventually(() => order(one!, requestId, requests), whileBusy);
      }
    },
    /** Sends requests to all instances until it is over. */
    async callAt(running: readonly Running[], isOver: () => boolean): Promise<void> {
      const lane = async (one: Running) => {
        while (!isOver()) await send(one);
      };
      await Promise.all(running.flatMap((one) => Array.from({ length: lanes }, () => lane(one))));
    },
    /** Until each instance says that nothing is left, and that no other one may give any back. */
    async spendAll(running: readonly Running[]): Promise<void> {
      const lane = async (one: Running) => {
        for (;;) {
          const waitS = await send(one);
          if (waitS !== undefined && waitS > idleS) return;
          if (waitS !== undefined) await pause(100);
        }
      };
      await Promise.all(running.flatMap((one) => Array.from({ length: lanes }, () => lane(one))));
      const { teams } = running[0]!.manager;
      const { quota } = await eventually(() => teams.getRateLimit({ teamId: key.teamId }), whileBusy);
      expect(stateOf(quota)).toEqual({ granted, left: 0 });
    },
    wrong(): readonly string[] {
      const over = admitted() - limit - granted;
      return over > 0 ? [...faults, `${over} over`] : [...faults];
    },
    figures: () => ({
      sent: counts.sent,
      admitted: admitted(),
      "refused by the quota": counts.refused,
      "answers 503": counts.unavailable,
      granted,
      over: Math.max(0, admitted() - limit - granted),
      lost: limit + granted - admitted(),
      "without an answer": unanswered.size,
      "without an answer, and not started": lostRequests(),
    }),
  };
}

interface Answer {
  readonly status: number;
  readonly code: string | undefined;
  /** Of a refusal, in seconds. */
  readonly retryAfter: number | undefined;
}

/** Runs the app once with a text. Undefined: the answer was lost. */
function caller({ value }: IssuedKey) {
  const headers = { authorization: `Bearer ${value}`, "content-type": "application/json" };
  return async (publicUrl: string, text: string): Promise<Answer | undefined> => {
    const init = { method: "POST", headers, body: JSON.stringify({ text }) };
    try {
      const answer = await fetch(`${publicUrl}/api/apps/counted/run`, init);
      const { error } = (await answer.json()) as { error?: { code: string } };
      const wait = answer.status === 429 ? Number(answer.headers.get("retry-after")) : undefined;
      return { status: answer.status, code: error?.code, retryAfter: wait };
    } catch {
      return undefined;
    }
  };
}
