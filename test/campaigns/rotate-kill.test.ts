import { randomInt } from "node:crypto";
import { MongoClient } from "mongodb";
import { expect, test } from "vitest";
import { AuditOutcome as Outcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import { campaignSize } from "../harness/campaigns.ts";
import { describeFleet } from "../harness/fleet.ts";
import type { manage } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { inFleet, inFolder, type KilledPlace, killAndCheck, type Writer } from "../harness/kills.ts";
import { queryStore } from "../harness/stored-bytes.ts";
import {
  listTeam,
  newRotatedTeam,
  type RotatedTeam,
  repeatUnanswered,
  rotatedKeysOfTeam,
  rotateUntilKilled,
  wrongRotations,
} from "./rotated-teams.ts";

const settings = { KEYRUN_KEYS_PER_TEAM_MAX: `${rotatedKeysOfTeam}` };
const words = (cycles: number) => `kill -9 leaves each rotation whole or undone, ${cycles} times over`;
const timeout = (cycles: number) => ({ timeout: 120_000 + cycles * 60_000 });

test(
  `on the embedded store, ${words(campaignSize("rotation-kills"))}`,
  timeout(campaignSize("rotation-kills")),
  () => rotateAndKill(inFolder(settings), campaignSize("rotation-kills"), { teamsOfLife: 6 }),
);

describeFleet("processes")("on MongoDB", () => {
  const cycles = Math.ceil(campaignSize("rotation-kills") / 3);
  test(words(cycles), timeout(cycles), async () =>
    rotateAndKill(await inFleet(1, settings), cycles, { teamsOfLife: 3 }),
  );
});

/** In each life of the process, so many teams rotate their keys at once. */
async function rotateAndKill(place: KilledPlace, cycles: number, { teamsOfLife }: { teamsOfLife: number }) {
  const writer = rotationWriter(place, teamsOfLife);
  await killAndCheck(place, writer, cycles);
  const { "rotations answered": answered = 0, "calls without an answer": unanswered } = writer.figures();
  expect(answered).toBeGreaterThan(2 * cycles);
  expect(unanswered).toBeGreaterThan(cycles);
}

function rotationWriter(place: KilledPlace, teamsOfLife: number): Writer {
  const teams: RotatedTeam[] = [];
  const repeats = { undone: 0, done: 0 };
  let last: RotatedTeam[] = [];
  let [answersMin, unanswered] = [0, 0];

  /** Once nothing is on its way any more. */
  async function wrongAtLast(manager: ReturnType<typeof manage>): Promise<string[]> {
    const wrong: string[] = [];
    unanswered = teams.flatMap(({ keys }) => keys.flatMap((key) => key.unanswered)).length;
    await expect.poll(() => pendingKeys(place)).toBe(0);
    for (const team of teams.filter(({ keys }) => keys.some((key) => key.unanswered.length > 0))) {
      wrong.push(...(await wrongRotations(manager, team, { isSettled: true })));
      const repeated = await repeatUnanswered(manager, team);
      repeats.undone += repeated.undone;
      repeats.done += repeated.done;
      wrong.push(...repeated.wrong);
    }
    for (const team of teams) {
      wrong.push(...(await wrongRotations(manager, team, { isSettled: true })));
      wrong.push(
        ...(await wrongEvents(manager, team, { hasTransactions: place.store === "embedded store" })),
      );
    }
    for (const team of last) wrong.push(...(await wrongCounts(manager, team)));
    return wrong;
  }

  return {
    async write([{ manager } = missing()], cycle) {
      // Every second time after some answers, and else in the middle of the first calls.
      answersMin = cycle % 2 === 0 ? randomInt(5, 10 * teamsOfLife) : 0;
      last = await Promise.all(Array.from({ length: teamsOfLife }, () => newRotatedTeam(manager)));
      teams.push(...last);
      await Promise.all(last.map((team) => rotateUntilKilled(manager, team)));
    },
    isDue: () => last.length > 0 && sumOf(last) >= answersMin,
    laterMsMax: 40,
    async wrong([{ publicUrl, manager } = missing()], isLast) {
      const wrong: string[] = [];
      for (const team of last) wrong.push(...(await wrongRotations(manager, team, { isSettled: false })));
      await expectHeaders(publicUrl, last);
      if (isLast) wrong.push(...(await wrongAtLast(manager)));
      else last = [];
      return wrong;
    },
    figures: () => ({
      "rotations answered": sumOf(teams) - repeats.undone - repeats.done,
      "calls without an answer": unanswered,
      "of them done": repeats.done,
      "of them undone": repeats.undone,
    }),
  };
}

function missing(): never {
  throw new Error("no Keyrun was started");
}

/** How many new keys of rotations can't be used yet. */
async function pendingKeys({ store, path }: KilledPlace): Promise<number> {
  if (store === "embedded store") {
    const [row] = await queryStore(path, "SELECT count(pending_since_ms) AS n FROM keys");
    return Number(row?.n);
  }
  const client = await MongoClient.connect(path);
  const keys = client.db().collection("keys");
  return keys.countDocuments({ pendingSinceMs: { $gte: 0 } }).finally(() => client.close());
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
  { hasTransactions }: { hasTransactions: boolean },
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
