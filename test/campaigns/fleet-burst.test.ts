import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { campaignSize, figures, timeFigures } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import { freePort } from "../harness/free-port.ts";
import { manage, readMetric } from "../harness/keyrun.ts";
import { type KeyrunProcess, statusOf } from "../harness/keyrun-process.ts";
import { until } from "../harness/soon.ts";

const instances = campaignSize("bursts");
const revocations = 50;

/** The event loop of a member was late, or the store took too long to answer its heartbeat. */
const starved = /the event loop is late|a heartbeat of this instance failed/;

let fleet: Fleet;
const members: Member[] = [];

/** A process of the fleet, straight at MongoDB and Redis: it should cost as little as it can. */
interface Member {
  readonly process: KeyrunProcess;
  readonly internalUrl: string;
  readonly management: ReturnType<typeof manage>;
}

async function startMember(): Promise<Member> {
  const [port, grpcPort] = [await freePort(), await freePort()];
  const process = fleet.spawn(
    fleet.joining({
      KEYRUN_PORT: `${port}`,
      KEYRUN_GRPC_PORT: `${grpcPort}`,
      KEYRUN_ADVERTISE_ADDRESS: `127.0.0.1:${grpcPort}`,
    }),
  );
  await process.until(() => process.stdout().includes("curl "));
  await until(async () => (await statusOf(`http://127.0.0.1:${port}/readyz`)) === 200);
  const internalUrl = `http://127.0.0.1:${grpcPort}`;
  return { process, internalUrl, management: manage(internalUrl, fleet.serviceToken) };
}

/** Over all instances. */
async function sumOf(series: string): Promise<number> {
  const each = members.map(({ internalUrl }) => readMetric(internalUrl, fleet.serviceToken, series));
  return (await Promise.all(each)).reduce((sum, value) => sum + value, 0);
}

async function newKeys() {
  const prepare = manage(members[0]!.internalUrl, fleet.serviceToken, { isPatient: true });
  try {
    const teamId = await prepare.newTeam();
    const keys = [];
    for (let n = 0; n < revocations; n += 1) keys.push(await prepare.newKey(teamId));
    return keys;
  } finally {
    prepare.disconnect();
  }
}

describeFleet("processes")(`${instances} idle instances`, () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes", size: 0 });
    for (let n = 0; n < instances; n += 1) members.push(await startMember());
  });
  afterAll(async () => {
    for (const { management } of members) management.disconnect();
    await fleet?.close();
  });

  /** Where the store takes over a second to answer a heartbeat, nobody can promise the rest. */
  async function burst() {
    const lines = () => members.flatMap(({ process }) => process.stderr().split("\n"));
    const countOf = (words: RegExp) => lines().filter((line) => words.test(line)).length;
    const count = async () => ({
      silent: countOf(/did not answer/),
      fenced: await sumOf("keyrun_fleet_fenced_total"),
      anew: await sumOf("keyrun_fleet_lease_taken_total"),
    });
    const [before, lateBefore] = [await count(), countOf(starved)];
    const failed: unknown[] = [];
    const times: number[] = [];
    const keys = await newKeys();
    await pause(2_000);
    const beganMs = performance.now();
    await Promise.all(
      keys.map(async ({ teamId, id }, n) => {
        const { keys: service } = members[n % instances]!.management;
        try {
          await service.revokeKey({ teamId, keyId: id });
          times.push(performance.now() - beganMs);
        } catch (thrown) {
          failed.push(thrown);
        }
      }),
    );
    const after = await count();
    const [silent, fenced] = [after.silent - before.silent, after.fenced - before.fenced];
    const found = { failed, silent, fenced, anew: after.anew - before.anew };
    const late = countOf(starved) - lateBefore;
    timeFigures("a revocation", times);
    figures("", {
      revocations,
      ...found,
      failed: failed.length,
      "times that the machine was too busy": late,
    });
    expect(times.length + failed.length).toBe(revocations);
    const isWrong = failed.length + silent + fenced + found.anew > 0;
    return { found, isDecided: late === 0 || !isWrong };
  }

  test(`of ${revocations} revocations at once none fails, and none takes a healthy instance for dead`, {
    timeout: 600_000,
  }, async () => {
    const { found } = await eventually(burst, { ...whileAnswer(({ isDecided }) => !isDecided), triesMax: 5 });
    expect(found).toEqual({ failed: [], silent: 0, fenced: 0, anew: 0 });
  });
});
