import { randomUUID } from "node:crypto";
import { durationFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import type { RotateKeyResponse } from "#gen/keyrun/v1/key_service_pb.ts";
import { eventually, whileBusy } from "../harness/eventually.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import type { IssuedKey, manage } from "../harness/keyrun.ts";
import { servedRun } from "../harness/keyrun-process.ts";

const hourMs = 3_600_000;
const rounds = 8;

describeFleet("processes")("three instances that rotate keys", () => {
  let fleet: Fleet;
  let managers: ReturnType<typeof manage>[];
  let teamId: string;
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes" });
    managers = fleet.members.map(({ place }) => fleet.manage(place));
    teamId = await managers[0]!.newTeam();
  });
  afterAll(() => fleet?.close());

  /** Asks again while the instance has no lease, as one that is short of the processor. */
  const runOn = (place: number, value: string) => servedRun(fleet.members[place]!.publicUrl, { value });
  const statuses = (value: string) =>
    Promise.all(fleet.members.map(async ({ place }) => (await runOn(place, value)).status));
  /** A key that every instance has in its cache. */
  async function knownKey(): Promise<IssuedKey> {
    const key = await managers[0]!.newKey(teamId);
    expect(await statuses(key.value)).toEqual([200, 200, 200]);
    return key;
  }
  const rotate = (place: number, { id: keyId }: { id: string }, overlapMs: number, requestId = "") =>
    managers[place]!.keys.rotateKey({ teamId, keyId, overlap: durationFromMs(overlapMs), requestId });
  /**
   * All outcomes. Throws where a rotation got no answer, as of an instance without its lease. It
   * may have been made, so the round begins again with another key.
   */
  async function settled(rotations: readonly Promise<RotateKeyResponse>[]) {
    const outcomes = await Promise.allSettled(rotations);
    for (const outcome of outcomes) {
      const isUnknown = outcome.status === "rejected" && refusalOf(outcome)?.code === Code.Unavailable;
      if (isUnknown) throw outcome.reason;
    }
    return outcomes;
  }
  async function inRounds(round: (n: number) => Promise<void>): Promise<void> {
    for (let n = 0; n < rounds; n++) await eventually(() => round(n), whileBusy);
  }
  const refusalOf = (outcome: PromiseSettledResult<RotateKeyResponse>) => {
    if (outcome.status === "fulfilled") return undefined;
    const error = ConnectError.from(outcome.reason);
    const [info] = error.findDetails(ErrorInfoSchema);
    return { code: error.code, reason: info?.reason, keyId: info?.metadata.key_id };
  };

  test("without an overlap, the old value is refused everywhere with the answer, and the new one works", async () => {
    await inRounds(async (n) => {
      const old = await knownKey();
      const { value } = await rotate(n % 3, old, 0);
      const [refused, accepted] = await Promise.all([statuses(old.value), statuses(value)]);
      expect(refused).toEqual([401, 401, 401]);
      expect(accepted).toEqual([200, 200, 200]);
      expect((await runOn((n + 1) % 3, old.value)).body).toContain("revoked_api_key");
    });
  });

  test("with an overlap, every instance says with the answer that the old key is replaced, and until when", async () => {
    await inRounds(async (n) => {
      const old = await knownKey();
      const beganMs = Date.now();
      const { value, replacedKey } = await rotate(n % 3, old, hourMs);
      const endedMs = Date.now();
      const endMs = replacedKey?.expireTime ? timestampMs(replacedKey.expireTime) : 0;
      expect(endMs).toBeGreaterThanOrEqual(beganMs + hourMs);
      expect(endMs).toBeLessThanOrEqual(endedMs + hourMs);
      for (const { place } of fleet.members) {
        const { status, headers } = await runOn(place, old.value);
        expect([status, headers.get("x-key-replaced"), headers.get("x-key-expires")]).toEqual([
          ...[200, "true", new Date(endMs).toISOString()],
        ]);
        const successor = await runOn(place, value);
        expect([successor.status, successor.headers.get("x-key-replaced")]).toEqual([200, null]);
      }
    });
  });

  test("of two rotations of one key on two instances at once one is done, and the other is told by which", async () => {
    await inRounds(async (n) => {
      const old = await knownKey();
      const overlapMs = n % 2 === 0 ? 0 : hourMs;
      const outcomes = await settled([rotate(n % 3, old, overlapMs), rotate((n + 1) % 3, old, overlapMs)]);
      const done = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
      expect(done).toHaveLength(1);
      const refusals = outcomes.flatMap((outcome) => refusalOf(outcome) ?? []);
      expect(refusals).toEqual([
        { code: Code.FailedPrecondition, reason: "KEY_NOT_ROTATABLE", keyId: old.id },
      ]);
      expect(await statuses(done[0]!.value)).toEqual([200, 200, 200]);
      const { keys } = await managers[2]!.keys.listKeys({ teamId, showRevoked: true, pageSize: 100 });
      const successors = keys.filter(({ replacesKeyId }) => replacesKeyId === old.id);
      expect(successors.map(({ id }) => id)).toEqual([done[0]!.key?.id]);
    });
  });

  test("a repeat with its request id is told on every instance which key was made, also at the same time", async () => {
    const repeatLater = async (overlapMs: number) => {
      const [old, requestId] = [await knownKey(), randomUUID()];
      const { key } = await rotate(0, old, overlapMs, requestId);
      const told = { code: Code.AlreadyExists, reason: "REQUEST_ID_USED", keyId: key?.id };
      for (const place of [1, 2, 0]) {
        const outcomes = await settled([rotate(place, old, overlapMs, requestId)]);
        expect(outcomes.map(refusalOf)).toEqual([told]);
      }
    };
    for (const overlapMs of [0, hourMs]) await eventually(() => repeatLater(overlapMs), whileBusy);
    await inRounds(async () => {
      const [old, requestId] = [await knownKey(), randomUUID()];
      const calls = [0, 1, 2].map((place) => rotate(place, old, hourMs, requestId));
      const outcomes = await settled(calls);
      const done = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
      expect(done).toHaveLength(1);
      const told = { code: Code.AlreadyExists, reason: "REQUEST_ID_USED", keyId: done[0]!.key?.id };
      expect(outcomes.flatMap((outcome) => refusalOf(outcome) ?? [])).toEqual([told, told]);
    });
  });
});
