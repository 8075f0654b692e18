import { randomInt } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { describe, expect, test } from "vitest";
import { AuditOutcome as Outcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import { campaignSize, figure, timeFigures } from "../harness/campaigns.ts";
import { describeFleet, startFleet } from "../harness/fleet.ts";
import { manage } from "../harness/keyrun.ts";
import { restRun, serveKeyrun } from "../harness/keyrun-process.ts";
import {
  listTeam,
  newRotatedTeam,
  type RotatedTeam,
  repeatUnanswered,
  rotatedKeysOfTeam,
  rotateUntilKilled,
  wrongRotations,
} from "../harness/rotated-teams.ts";
import { soon } from "../harness/soon.ts";
import { queryStore } from "../harness/stored-bytes.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const settings = { KEYRUN_PLAN_LIMITS: "free=100000", KEYRUN_KEYS_PER_TEAM_MAX: `${rotatedKeysOfTeam}` };

/** Where a Keyrun runs, is killed, and is started again on what it has written. */
interface Place {
  start(): Promise<{ readonly publicUrl: string; readonly manager: ReturnType<typeof manage> }>;
  kill(): Promise<void>;
  /** How many new keys of rotations can't be used yet. */
  pendingKeys(): Promise<number>;
  close(): Promise<void>;
  /** Whether a change and its event are written in one transaction. */
  readonly hasTransactions: boolean;
  /** In each life of the process, so many teams rotate their keys at once. */
  readonly teamsOfLife: number;
}

const words = (cycles: number) => `kill -9 leaves each rotation whole or undone, ${cycles} times over`;
const timeout = (cycles: number) => ({ timeout: 120_000 + cycles * 60_000 });

describe("on the embedded store", () => {
  const cycles = campaignSize("rotation-kills");
  test(words(cycles), timeout(cycles), () => killAndCheck(openFolder(), cycles));
});

describeFleet("processes")("on MongoDB", () => {
  const cycles = Math.ceil(campaignSize("rotation-kills") / 3);
  test(words(cycles), timeout(cycles), async () => killAndCheck(await openFleet(), cycles));
});

async function killAndCheck(place: Place, cycles: number): Promise<void> {
  const teams: RotatedTeam[] = [];
  const wrong: string[] = [];
  const repeats = { undone: 0, done: 0 };
  const startsMs: number[] = [];
  let last: RotatedTeam[] = [];
  const repeat = async (manager: ReturnType<typeof manage>, team: RotatedTeam) => {
    const repeated = await repeatUnanswered(manager, team);
    repeats.undone += repeated.undone;
    repeats.done += repeated.done;
    wrong.push(...repeated.wrong);
  };
  try {
    for (let cycle = 0; cycle < cycles; cycle++) {
      const beganMs = performance.now();
      const { publicUrl, manager } = await place.start();
      startsMs.push(performance.now() - beganMs);
      for (const team of last) wrong.push(...(await wrongRotations(manager, team, { isSettled: false })));
      await expectHeaders(publicUrl, last);
      last = await Promise.all(Array.from({ length: place.teamsOfLife }, () => newRotatedTeam(manager)));
      teams.push(...last);
      const rotating = last.map((team) => rotateUntilKilled(manager, team));
      // Every second time after some answers, and else in the middle of the first calls.
      const answersMin = cycle % 2 === 0 ? randomInt(5, 10 * place.teamsOfLife) : 0;
      let areOver = false;
      void Promise.all(rotating).then(() => {
        areOver = true;
      });
      while (sumOf(last) < answersMin && !areOver) await new Promise((resolve) => setImmediate(resolve));
      await pause(randomInt(cycle % 2 === 0 ? 20 : 60));
      await place.kill();
      await Promise.all(rotating);
      manager.disconnect();
    }
    const { publicUrl, manager } = await place.start();
    const unanswered = teams.flatMap(({ keys }) => keys.flatMap((key) => key.unanswered)).length;
    await expectHeaders(publicUrl, last);
    for (const team of last) wrong.push(...(await wrongRotations(manager, team, { isSettled: false })));
    await soon(place.pendingKeys).toBe(0);
    const isOpen = ({ keys }: RotatedTeam) => keys.some((key) => key.unanswered.length > 0);
    for (const team of teams.filter(isOpen)) {
      wrong.push(...(await wrongRotations(manager, team, { isSettled: true })));
      await repeat(manager, team);
    }
    for (const team of teams) {
      wrong.push(...(await wrongRotations(manager, team, { isSettled: true })));
      wrong.push(...(await wrongEvents(manager, team, place)));
    }
    for (const team of last) wrong.push(...(await wrongCounts(manager, team)));
    const names = place.hasTransactions ? "embedded store: " : "MongoDB: ";
    figure(`${names}rotations answered`, sumOf(teams) - repeats.undone - repeats.done);
    figure(`${names}calls without an answer`, unanswered);
    figure(`${names}of them done`, repeats.done);
    figure(`${names}of them undone`, repeats.undone);
    figure(`${names}wrong`, wrong.length);
    timeFigures(`${names}start to ready`, startsMs);
    manager.disconnect();
    expect(wrong).toEqual([]);
    expect(sumOf(teams)).toBeGreaterThan(2 * cycles);
    expect(unanswered).toBeGreaterThan(cycles);
  } finally {
    await place.close();
  }
}

const sumOf = (teams: readonly RotatedTeam[]) => teams.reduce((sum, { answered }) => sum + answered, 0);

/** Answers to a replaced key that lives on say so, and those to a successor don't. */
async function expectHeaders(publicUrl: string, teams: readonly RotatedTeam[]): Promise<void> {
  const keys = teams.flatMap((team) => team.keys);
  const old = keys.find(({ replaced }) => replaced?.expireMs !== undefined);
  if (!old?.replaced?.expireMs) return;
  const { status, headers } = await restRun(publicUrl, { value: old.value });
  expect([status, headers.get("x-key-replaced"), headers.get("x-key-expires")]).toEqual([
    ...[200, "true", new Date(old.replaced.expireMs).toISOString()],
  ]);
  const successor = keys.find(({ id, replaced }) => id === old.replaced?.by && !replaced);
  if (!successor || successor.unanswered.length > 0) return;
  const answer = await restRun(publicUrl, { value: successor.value });
  expect([answer.status, answer.headers.get("x-key-replaced")]).toEqual([200, null]);
}

/** A key and its successors count as one: the team is full, and has room once one family ended. */
async function wrongCounts(
  { keys, newKey }: ReturnType<typeof manage>,
  { id: teamId, keys: held }: RotatedTeam,
): Promise<string[]> {
  const tryNew = () =>
    newKey(teamId).then(
      () => "created",
      (thrown) => String(thrown),
    );
  const { activeKeyCount } = await keys.listKeys({ teamId });
  const full = await tryNew();
  const [first] = held;
  for (let keyId = first?.id ?? ""; keyId !== ""; ) {
    const { key } = await keys.revokeKey({ teamId, keyId });
    keyId = key?.replacedByKeyId ?? "";
  }
  const [room, fullAgain] = [await tryNew(), await tryNew()];
  const isRight = full.includes("failed_precondition") && room === "created" && fullAgain === full;
  if (activeKeyCount === rotatedKeysOfTeam && isRight) return [];
  return [`${teamId} counts ${activeKeyCount} keys: ${full}, then ${room}, then ${fullAgain}`];
}

/** A replaced key has an event that it was, and no other key has an event that says it was. */
async function wrongEvents(
  manager: ReturnType<typeof manage>,
  team: RotatedTeam,
  { hasTransactions }: Place,
): Promise<string[]> {
  const events: { target: string; outcome: Outcome }[] = [];
  let pageToken = "";
  do {
    const page = await manager.audit.listEvents({
      ...{ teamId: team.id, action: "key.rotate", pageSize: 100, pageToken },
    });
    events.push(...page.events);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  const wrong: string[] = [];
  for (const { id, replacedByKeyId } of (await listTeam(manager, team)).values()) {
    const own = events.filter(({ target }) => target === id);
    const done = own.filter(({ outcome }) => outcome === Outcome.DONE).length;
    const maybe = own.filter(({ outcome }) => outcome === Outcome.UNKNOWN).length;
    const isRight =
      replacedByKeyId === ""
        ? done === 0 && (!hasTransactions || maybe === 0)
        : done <= 1 && (hasTransactions ? done + maybe === 1 : done + maybe >= 1);
    if (!isRight)
      wrong.push(`${team.id} ${id}, replaced by "${replacedByKeyId}": ${done} and ${maybe} events`);
  }
  return wrong;
}

function openFolder(): Place {
  const folders = createTempFolders();
  const dataDir = folders.create();
  let running: Awaited<ReturnType<typeof serveKeyrun>> | undefined;
  const kill = async () => {
    running?.kill("SIGKILL");
    await running?.exited;
  };
  return {
    kill,
    async start() {
      running = await serveKeyrun(dataDir, settings);
      const { publicUrl, internalUrl } = running;
      return { publicUrl, manager: manage(internalUrl, running.serviceToken()) };
    },
    async pendingKeys() {
      const [row] = await queryStore(dataDir, "SELECT count(pending_since_ms) AS n FROM keys");
      return Number(row?.n);
    },
    async close() {
      await kill();
      folders.remove();
    },
    hasTransactions: true,
    teamsOfLife: 6,
  };
}

async function openFleet(): Promise<Place> {
  const fleet = await startFleet({ in: "processes", size: 1, settings, started: false });
  const [member] = fleet.members;
  const client = await MongoClient.connect(fleet.joining().KEYRUN_MONGODB_URI ?? "");
  return {
    async start() {
      await member!.start();
      return { publicUrl: member!.publicUrl, manager: manage(member!.internalUrl, fleet.serviceToken) };
    },
    kill: () => member!.kill(),
    pendingKeys: () =>
      client
        .db()
        .collection("keys")
        .countDocuments({ pendingSinceMs: { $gte: 0 } }),
    async close() {
      await client.close();
      await fleet.close();
    },
    hasTransactions: false,
    teamsOfLife: 3,
  };
}
