import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, type FleetMember, startFleet } from "../harness/fleet.ts";
import { type FleetAddress, fleetEntriesAndGuard, makeGuarded } from "../harness/fleet-caller.ts";
import type {
  RecorderApi,
  RecorderData,
  RevokeAnswer,
  RevokedKey,
  Tally,
} from "../harness/fleet-recorder.ts";
import type { manage } from "../harness/keyrun.ts";
import { startThread } from "../harness/thread.ts";
import { createHistogram } from "./histogram.ts";
import { type ReplicaSet, startReplicaSet } from "./replica-set.ts";

const revokesMin = campaignSize("fleet-revocations");
/** Keys that are used and revoked at the same time. */
const keysAtOnce = Math.min(40, Math.ceil(revokesMin / 14));
/** How long a key rests between two uses at one instance. */
const pauseMs = 80;
/** How often a busy store is asked again, to create a key or to revoke one that got no OK. */
const patience = { triesMax: 60, pauseMs: 1_000 };
/** One member's wall clock can be stepped. */
const stepped = 2;

let fleet: Fleet;
let management: ReturnType<typeof manage>;
let recorder: Awaited<ReturnType<typeof startThread<RecorderApi>>>;
const durations = createHistogram();
const totals = {
  oks: 0,
  before: 0,
  inFlight: 0,
  crossed: 0,
  after: 0,
  parked: 0,
  unavailable: 0,
  lost: 0,
  refused: 0,
};
const wrong: string[] = [];

/** The members of a batch: the one in trouble, and those that revoke. */
interface Cast {
  readonly victim: FleetMember;
  readonly others: readonly FleetMember[];
}

interface Case {
  readonly name: string;
  /** From where the keys are revoked, if not from those that are not in trouble. */
  readonly fromVictim?: boolean;
  readonly inTurn?: boolean;
  /** Which member is in trouble, if it matters. */
  readonly place?: number;
  /** Before the revocations. */
  before?(cast: Cast, batch: number): unknown;
  /** While they run. */
  during?(cast: Cast, batch: number): Promise<unknown>;
  /** Once all of them have their OK. */
  after?(cast: Cast): unknown;
}

/** Requests are sent to the member until it stands still, and then again. */
async function stopInTheMiddle({ victim }: Cast, batch: number): Promise<void> {
  await recorder.calls.openParked(batch, victim.place);
  victim.pause();
  await recorder.calls.sendParked(batch);
}

async function restart({ victim }: Cast): Promise<void> {
  await victim.kill();
  await pause(1_000);
  await victim.start();
}

const troubles: readonly Case[] = [
  { name: "healthy, one after the other", inTurn: true },
  { name: "healthy, many at once" },
  {
    name: "healthy, nudges lost",
    inTurn: true,
    before: () => Promise.all(fleet.members.map(({ nudges }) => nudges.cut())),
    after: () => Promise.all(fleet.members.map(({ nudges }) => nudges.mend())),
  },
  {
    name: "one stopped, requests in its socket",
    before: stopInTheMiddle,
    after: ({ victim }) => victim.resume(),
  },
  {
    name: "one slow to MongoDB (+100 ms)",
    before: ({ victim }) => victim.mongo.delay(100),
    after: ({ victim }) => victim.mongo.mend(),
  },
  { name: "one killed and started again", during: restart },
  {
    name: "one cut off from MongoDB",
    before: ({ victim }) => victim.mongo.cut(),
    after: ({ victim }) => victim.mongo.mend(),
  },
  {
    name: "wall clock of one +1 h",
    place: stepped,
    before: ({ victim }) => victim.setClock(3_600),
    after: ({ victim }) => victim.setClock(0),
  },
  {
    name: "wall clock of one -1 h",
    place: stepped,
    before: ({ victim }) => victim.setClock(-3_600),
    after: ({ victim }) => victim.setClock(0),
  },
  {
    name: "one stopped, its wall clock -1 h",
    place: stepped,
    async before(cast, batch) {
      await stopInTheMiddle(cast, batch);
      cast.victim.setClock(-3_600);
    },
    after({ victim }) {
      victim.resume();
      victim.setClock(0);
    },
  },
  {
    name: "MongoDB silent for one",
    before: ({ victim }) => victim.mongo.freeze(),
    after: ({ victim }) => victim.mongo.mend(),
  },
  {
    name: "Redis slow for one, which is stopped",
    async before(cast, batch) {
      // Requests wait for Redis in the moment in which the process stops.
      await cast.victim.redis.delay(40);
      await pause(4 * pauseMs);
      await stopInTheMiddle(cast, batch);
    },
    async after({ victim }) {
      victim.resume();
      await victim.redis.mend();
    },
  },
  {
    name: "the revoker cut off, then another",
    fromVictim: true,
    before: ({ victim }) => victim.mongo.cut(),
    after: ({ victim }) => victim.mongo.mend(),
  },
  {
    name: "the revoker killed after its write",
    fromVictim: true,
    // The write of a revocation reaches the server, and the answer reaches nobody.
    before: ({ victim }) => victim.mongo.freezeOn("revokeTimeMs"),
    async during({ victim }) {
      await pause(300);
      await victim.kill();
      await victim.mongo.mend();
      await victim.start();
    },
  },
];

/** The votes of a replica set, which takes a `mongod`, while keys are used and revoked. */
const votes: readonly Case[] = [
  { name: "healthy, one after the other", inTurn: true },
  { name: "healthy, many at once" },
  {
    name: "the primary steps down",
    inTurn: true,
    during: async () => (await replicaSet!.primary()).stepDown(),
  },
  {
    name: "the primary killed and started again",
    async during() {
      const primary = await replicaSet!.primary();
      await primary.kill();
      await replicaSet!.primary(primary);
      primary.start();
    },
  },
  {
    // It does not know that another was voted for, and answers what lies in its sockets.
    name: "the primary stopped until another is voted for",
    inTurn: true,
    async during() {
      const primary = await replicaSet!.primary();
      primary.pause();
      await replicaSet!.primary(primary);
      await pause(2_000);
      primary.resume();
    },
  },
];
const withVotes = process.env.KEYRUN_TEST_FLEET_VOTES === "1";
const cases = withVotes ? votes : troubles;
let replicaSet: ReplicaSet | undefined;

describeFleet("processes")("three instances", () => {
  beforeAll(async () => {
    if (withVotes) replicaSet = await startReplicaSet();
    fleet = await startFleet({ in: "processes", fakeClocks: [stepped], replicaSet });
    management = fleet.manage();
    await makeGuarded(management);
    const { members, serviceToken } = fleet;
    const addresses: FleetAddress[] = members.map(({ publicUrl, internalUrl }) => ({
      ...{ publicUrl, internalUrl, serviceToken },
    }));
    const data: RecorderData = { addresses, entries: fleetEntriesAndGuard, lanes: 1, pauseMs, usesAround: 2 };
    recorder = await startThread(new URL("../harness/fleet-recorder.ts", import.meta.url), data);
  });
  afterAll(async () => {
    await recorder?.end();
    await fleet?.close();
    await replicaSet?.close();
  });

  test(`of ${revokesMin} keys under load, through all troubles, none is accepted on any instance by a request that is sent after the OK to its revocation`, {
    timeout: 180_000 + revokesMin * 1_500,
  }, async () => {
    for (let turn = 0; totals.oks < revokesMin || turn < cases.length; turn += 1) {
      await revokeInTrouble(cases[turn % cases.length]!, turn);
    }
    const { oks, before, inFlight, after, parked, unavailable, lost, refused } = totals;
    figure("revocations", oks);
    figure("uses accepted before", before);
    figure("in flight at the OK and accepted", inFlight);
    figure("sent after the OK", after);
    figure("that lay in the socket of a stopped instance", parked);
    figure("of these accepted", wrong.filter((words) => words.includes("ACCEPTED")).length);
    figure("answers 503", unavailable);
    figure("lost connections", lost);
    figure("revocations answered 503 and asked for again", refused);
    process.stderr.write(`${durations.inWords()}\n`);
    for (const member of fleet.members) {
      const causes = member.process().stderr().split("\n");
      for (const line of causes.filter((each) => each.includes('"INTERNAL"')))
        process.stderr.write(`${line.slice(0, 2_000)}\n`);
    }
    expect(wrong).toEqual([]);
    if (!withVotes) expect(parked).toBeGreaterThan(0);
  });
});

async function revokeInTrouble(trouble: Case, turn: number): Promise<void> {
  const { name, fromVictim = false, inTurn = false, place = turn % 3 } = trouble;
  const { members } = fleet;
  const cast: Cast = { victim: members[place]!, others: members.filter((each) => each.place !== place) };
  const via = (fromVictim ? [cast.victim] : cast.others).map((each) => each.place);
  const teamId = await eventually(() => management.newTeam(), whileThrown);
  const batch = await recorder.calls.begin(await newKeys(teamId, via));
  await trouble.before?.(cast, batch);
  const beganMs = performance.now();
  const revoking = recorder.calls.revoke(batch, { inTurn });
  await trouble.during?.(cast, batch);
  const answers = [...(await revoking)];
  if (fromVictim) {
    // A revoker that can't reach the store gives no OK, and another one finishes its work.
    wrong.push(...answers.filter(({ status }) => status === 200).map(() => `${name}: OK without the store`));
    answers.splice(
      0,
      answers.length,
      ...(await recorder.calls.revoke(batch, { via: [cast.others[0]!.place] })),
    );
  }
  await trouble.after?.(cast);
  const longestMs = Math.max(...answers.map(({ ms }) => ms));
  process.stderr.write(`${name}: ${answers.length} answers, the last after ${longestMs.toFixed(0)} ms\n`);
  for (const { status, ms, body } of answers) {
    if (status === 503) totals.refused += 1;
    else if (status !== 200) wrong.push(`${name}: not revoked, but ${status} ${body.slice(0, 100)}`);
    if (status !== 200) continue;
    totals.oks += 1;
    durations.add(name, ms);
  }
  if (await finish(batch, name, answers)) {
    durations.add(`${name}: until all had their OK`, performance.now() - beganMs);
  }
  const tally = await recorder.calls.end(batch);
  wrong.push(...tally.wrong.map((words) => `${name}: ${words}`));
  for (const each of Object.keys(tally) as (keyof Tally)[]) if (each !== "wrong") totals[each] += tally[each];
  for (const member of members) await member.untilReadyz(200);
  // FerretDB reads all keys for each revocation. What is not deleted makes it slower, and no more.
  await management.teams.deleteTeam({ teamId }).catch(() => undefined);
}

/**
 * Revokes those again that have no OK: the uses of a key without one count as before its
 * revocation, so they would go on for ever. Whether there were any.
 */
async function finish(batch: number, name: string, answers: readonly RevokeAnswer[]): Promise<boolean> {
  const isLeft = (some: readonly RevokeAnswer[]) => some.some(({ status }) => status !== 200);
  if (!isLeft(answers)) return false;
  await pause(patience.pauseMs);
  const again = async () => {
    const left = await recorder.calls.revoke(batch);
    totals.oks += left.filter(({ status }) => status === 200).length;
    return left;
  };
  const last = await eventually(again, { ...whileAnswer(isLeft), ...patience });
  process.stderr.write(`${name}: ${last.length} revoked at last\n`);
  return true;
}

/** A team or a key that was made without an answer is not used. */
const whileThrown = { again: (outcome: object) => "thrown" in outcome, ...patience };

/** Every third key is revoked by two instances at the same time. */
async function newKeys(teamId: string, via: readonly number[]): Promise<RevokedKey[]> {
  const keys: RevokedKey[] = [];
  for (let n = 0; n < keysAtOnce; n += 1) {
    const { id, value } = await eventually(() => management.newKey(teamId), whileThrown);
    const one = via[n % via.length]!;
    keys.push({ teamId, keyId: id, value, via: n % 3 === 0 ? via : [one] });
  }
  return keys;
}
