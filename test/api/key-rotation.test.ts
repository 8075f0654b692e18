import { randomUUID } from "node:crypto";
import { durationFromMs, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { keyLifeBounds } from "#src/keys/key-life.ts";
import { agedKeyrun } from "./aged-keyrun.ts";
import { refusedCall } from "./refused-call.ts";

const { clock, callers, keyrun, run } = agedKeyrun();

const hourMs = 60 * 60_000;
const dayMs = 24 * hourMs;

async function newKey(facts: { label?: string; expireMs?: number } = {}) {
  const teamId = await keyrun().newTeam(Plan.ENTERPRISE);
  const { label = "", expireMs } = facts;
  const expiry = expireMs === undefined ? {} : { expireTime: timestampFromMs(expireMs) };
  const { key, value } = await keyrun().keys.createKey({ teamId, label, ...expiry });
  return { teamId, keyId: key?.id ?? "", value };
}

const rotate = (key: { teamId: string; keyId: string }, overlapMs = 0, requestId = "") =>
  keyrun().keys.rotateKey({ ...key, overlap: durationFromMs(overlapMs), requestId });

describe("rotating without an overlap", () => {
  test("revokes the old key at once on every transport, and the new one works", async () => {
    const old = await newKey({ label: "ci" });
    for (const caller of callers) expect((await run(old.value, caller)).kind).toBe("ok");
    const { key, value, replacedKey } = await rotate(old);
    expect(value).toMatch(/^svc_[0-9a-hjkmnp-tv-z]{24}\.[0-9A-Za-z]{49}$/);
    expect(key).toMatchObject({
      ...{ id: value.slice(4, 28), teamId: old.teamId, label: "ci", state: KeyState.ACTIVE },
      ...{ replacesKeyId: old.keyId, replacedByKeyId: "", createdBy: "the service token" },
    });
    expect(replacedKey).toMatchObject({
      ...{ id: old.keyId, state: KeyState.REVOKED, revokedBy: "the service token" },
      ...{ replacesKeyId: "", replacedByKeyId: key?.id },
    });
    for (const caller of callers) {
      expect((await run(value, caller)).kind).toBe("ok");
      expect(JSON.stringify(await run(old.value, caller))).toContain("REVOKED_API_KEY");
    }
    const { keys, activeKeyCount } = await keyrun().keys.listKeys({ teamId: old.teamId });
    expect([keys.map(({ id }) => id), activeKeyCount]).toEqual([[key?.id], 1]);
  });
});

describe("rotating with an overlap", () => {
  test("lets the old key go on for exactly so long, and says so on every answer to it", async () => {
    const old = await newKey();
    const endMs = clock.unixMs() + 30 * dayMs;
    const { value, replacedKey } = await rotate(old, 30 * dayMs);
    expect(replacedKey?.state).toBe(KeyState.ACTIVE);
    expect(replacedKey?.expireTime && timestampMs(replacedKey.expireTime)).toBe(endMs);
    clock.stepWall(1);
    for (const caller of callers) {
      const { headers } = await run(old.value, caller);
      expect(headers.get("x-key-expires")).toBe(new Date(endMs).toISOString());
      expect(headers.get("x-key-replaced")).toBe("true");
      expect((await run(value, caller)).headers.get("x-key-replaced")).toBeNull();
    }
    clock.stepWall(30 * dayMs - 2);
    expect((await run(old.value)).kind).toBe("ok");
    clock.stepWall(1);
    for (const caller of callers) {
      expect(JSON.stringify(await run(old.value, caller))).toContain("EXPIRED_API_KEY");
      expect((await run(value, caller)).kind).toBe("ok");
    }
  });

  test("never puts the old key's own expiry off, and gives the new key the same span", async () => {
    const beganMs = clock.unixMs();
    const old = await newKey({ expireMs: beganMs + 10 * dayMs });
    clock.stepWall(9 * dayMs);
    const { key, replacedKey } = await rotate(old, 7 * dayMs);
    expect(replacedKey?.expireTime && timestampMs(replacedKey.expireTime)).toBe(beganMs + 10 * dayMs);
    expect(key?.expireTime && timestampMs(key.expireTime)).toBe(clock.unixMs() + 10 * dayMs);
  });

  test("gives the new key at least the minute of a new key, where the old one's span was made shorter", async () => {
    const old = await newKey();
    const expireTime = timestampFromMs(clock.unixMs() + 5_000);
    const { teamId, keyId } = old;
    await keyrun().keys.updateKey({ teamId, keyId, expireTime, updateMask: { paths: ["expire_time"] } });
    const { key, replacedKey } = await rotate(old, hourMs);
    expect(replacedKey?.expireTime).toEqual(expireTime);
    expect(key?.expireTime && timestampMs(key.expireTime)).toBe(clock.unixMs() + 60_000);
  });

  test("works with all keys that the team may have, and the pair counts as one", async () => {
    const old = await newKey();
    await Promise.all(Array.from({ length: 49 }, () => keyrun().newKey(old.teamId)));
    const { key } = await rotate(old, hourMs);
    const { activeKeyCount, keys } = await keyrun().keys.listKeys({ teamId: old.teamId, pageSize: 100 });
    expect([activeKeyCount, keys.length]).toEqual([50, 51]);
    const refusal = { reason: "KEY_LIMIT_REACHED" };
    expect(await refusedCall(keyrun().keys.createKey({ teamId: old.teamId }))).toMatchObject(refusal);
    clock.stepWall(hourMs);
    expect(await refusedCall(keyrun().keys.createKey({ teamId: old.teamId }))).toMatchObject(refusal);
    await keyrun().keys.revokeKey({ teamId: old.teamId, keyId: key?.id ?? "" });
    await keyrun().newKey(old.teamId);
  });

  test("lasts for the next whole millisecond, also where it is shorter than one", async () => {
    const old = await newKey();
    const overlap = { seconds: 0n, nanos: 900_000 };
    const { replacedKey } = await keyrun().keys.rotateKey({ ...old, overlap });
    expect(replacedKey?.state).toBe(KeyState.ACTIVE);
    expect(replacedKey?.expireTime && timestampMs(replacedKey.expireTime)).toBe(clock.unixMs() + 1);
    expect((await run(old.value)).kind).toBe("ok");
    clock.stepWall(1);
    expect(JSON.stringify(await run(old.value))).toContain("EXPIRED_API_KEY");
  });

  test("tells watchers of both keys", async () => {
    const old = await newKey();
    const ended = new AbortController();
    const { teamId } = old;
    const watch = keyrun().keys.watchKeys({ teamId }, { signal: ended.signal })[Symbol.asyncIterator]();
    await watch.next();
    const { key } = await rotate(old, hourMs);
    expect(await watch.next()).toMatchObject({
      value: { event: { case: "created", value: { id: key?.id, replacesKeyId: old.keyId } } },
    });
    expect(await watch.next()).toMatchObject({
      value: { event: { case: "changed", value: { id: old.keyId, replacedByKeyId: key?.id } } },
    });
    ended.abort();
  });
});

describe("a rotation is refused", () => {
  test("for a key that is revoked, expired or replaced, and says which", async () => {
    const [revoked, expired, replaced] = [
      await newKey(),
      await newKey({ expireMs: clock.unixMs() + hourMs }),
      await newKey(),
    ];
    await keyrun().keys.revokeKey({ teamId: revoked.teamId, keyId: revoked.keyId });
    clock.stepWall(hourMs);
    const { key } = await rotate(replaced, hourMs);
    for (const [old, words] of [
      [revoked, "revoked"],
      [expired, "expired"],
      [replaced, `replaced by \`${key?.id}\``],
    ] as const) {
      const refusal = await refusedCall(rotate(old, hourMs));
      expect(refusal).toMatchObject({ code: Code.FailedPrecondition, reason: "KEY_NOT_ROTATABLE" });
      expect(refusal.metadata).toEqual({ key_id: old.keyId });
      expect(refusal.words).toContain(words);
    }
  });

  test("for a replaced key by the name of its newest successor, or by the advice to create one", async () => {
    const old = await newKey();
    const { teamId } = old;
    const { key: second } = await rotate(old, hourMs);
    const { key: third } = await rotate({ teamId, keyId: second?.id ?? "" });
    const advice = async () => (await refusedCall(rotate(old))).words;
    expect(await advice()).toContain(`replaced by \`${third?.id}\`. Rotate that one.`);
    const { key: fourth } = await rotate({ teamId, keyId: third?.id ?? "" });
    expect(await advice()).toContain(`replaced by \`${fourth?.id}\`. Rotate that one.`);
    await keyrun().keys.revokeKey({ teamId, keyId: fourth?.id ?? "" });
    expect(await advice()).toContain(`replaced by \`${fourth?.id}\`, which is revoked. Create a new one.`);
  });

  test("for a key that was replaced too often by the advice to look for the newest one", async () => {
    const old = await newKey();
    const { teamId } = old;
    let { key: newest } = await rotate(old, hourMs);
    const { successorsReadMax } = keyLifeBounds;
    const advice = async () => (await refusedCall(rotate(old))).words;
    for (let n = 1; n < successorsReadMax; n++) {
      ({ key: newest } = await rotate({ teamId, keyId: newest?.id ?? "" }));
    }
    expect(await advice()).toContain(`replaced by \`${newest?.id}\``);
    await rotate({ teamId, keyId: newest?.id ?? "" });
    expect(await advice()).toContain("List the keys, and rotate the newest one.");
  });

  test("with an overlap for a successor while its predecessor lives, and done without one", async () => {
    const old = await newKey();
    const { key } = await rotate(old, hourMs);
    const successor = { teamId: old.teamId, keyId: key?.id ?? "" };
    expect(await refusedCall(rotate(successor, hourMs))).toMatchObject({ reason: "KEY_NOT_ROTATABLE" });
    const { value } = await rotate(successor);
    expect((await run(value)).kind).toBe("ok");
    expect((await run(old.value)).kind).toBe("ok");
    expect((await keyrun().keys.listKeys({ teamId: old.teamId })).activeKeyCount).toBe(1);
  });

  test("with a used request id, by the name of the key that it made", async () => {
    const [first, second] = [await newKey(), await newKey()];
    const requestId = randomUUID();
    const { key } = await rotate(first, hourMs, requestId);
    expect(key?.requestId).toBe(requestId);
    expect(await refusedCall(rotate(first, hourMs, requestId))).toMatchObject({
      ...{ code: Code.AlreadyExists, reason: "REQUEST_ID_USED", metadata: { key_id: key?.id } },
    });
    const another = await keyrun().keys.createKey({ teamId: first.teamId });
    const used = rotate({ teamId: first.teamId, keyId: another.key?.id ?? "" }, 0, requestId);
    expect(await refusedCall(used)).toMatchObject({
      ...{ code: Code.AlreadyExists, reason: "REQUEST_ID_USED", metadata: { key_id: key?.id } },
    });
    await rotate(second, hourMs, requestId);
  });

  test.each([-1, 30 * dayMs + 1])("with an overlap of %i ms, which is named", async (overlapMs) => {
    const refusal = await refusedCall(rotate(await newKey(), overlapMs));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument });
    expect(refusal.words).toContain("overlap");
  });

  test.each([
    ["shorter than nothing", { seconds: 0n, nanos: -1 }],
    ["longer than 30 days", { seconds: BigInt((30 * dayMs) / 1_000), nanos: 1 }],
  ])("with an overlap that is a nanosecond %s", async (_, overlap) => {
    const refusal = await refusedCall(keyrun().keys.rotateKey({ ...(await newKey()), overlap }));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument });
  });

  test("for another team's key and an unknown key alike", async () => {
    const [own, other] = [await newKey(), await newKey()];
    const foreign = await refusedCall(rotate({ teamId: own.teamId, keyId: other.keyId }));
    const unknown = await refusedCall(rotate({ teamId: own.teamId, keyId: "0".repeat(24) }));
    expect(foreign.reason).toBe("KEY_NOT_FOUND");
    expect(unknown.words.replace("0".repeat(24), other.keyId)).toBe(foreign.words);
  });
});

test("of many rotations of one key at once exactly one is done, and only its value works", async () => {
  const old = await newKey();
  const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => rotate(old, hourMs)));
  const done = outcomes.filter((outcome) => outcome.status === "fulfilled");
  expect(done).toHaveLength(1);
  expect((await run(done[0]!.value.value)).kind).toBe("ok");
  const { keys } = await keyrun().keys.listKeys({ teamId: old.teamId, showRevoked: true });
  expect(keys.map(({ id }) => id).sort()).toEqual([old.keyId, done[0]!.value.key?.id].sort());
});
