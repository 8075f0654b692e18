import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import type { Caller } from "../harness/callers.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { agedKeyrun } from "./aged-keyrun.ts";
import { refusedCall } from "./refused-call.ts";

const { clock, callers, keyrun, run } = agedKeyrun();

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

async function keyUntil(expireMs: number, teamId?: string) {
  const team = teamId ?? (await keyrun().newTeam(Plan.ENTERPRISE));
  const expireTime = timestampFromMs(expireMs);
  const { key, value } = await keyrun().keys.createKey({ teamId: team, expireTime });
  return { teamId: team, keyId: key?.id ?? "", value, key };
}

describe("a key with an expiry", () => {
  test("is accepted until its last millisecond, and refused from the next on, on every transport, cached or not", async () => {
    const expireMs = clock.unixMs() + dayMs;
    const { teamId, keyId, value } = await keyUntil(expireMs);
    const uncached = await keyUntil(expireMs, teamId);
    clock.stepWall(dayMs - 1);
    for (const caller of callers) expect(await run(value, caller)).toMatchObject({ kind: "ok" });
    expect(await keyrun().keys.verifyKey({ value, cost: 0 })).toMatchObject({ verdict: Verdict.VALID });
    clock.stepWall(1);
    for (const used of [value, uncached.value]) {
      for (const caller of callers) {
        const outcome = await run(used, caller);
        expect(outcome).toMatchObject({ kind: "refused", code: Code.Unauthenticated });
        expect(JSON.stringify(outcome)).toContain("EXPIRED_API_KEY");
        expect(JSON.stringify(outcome)).toContain(new Date(expireMs).toISOString());
      }
    }
    const verdict = await keyrun().keys.verifyKey({ value, cost: 0 });
    expect(verdict).toMatchObject({ verdict: Verdict.EXPIRED, keyId, teamId, plan: Plan.ENTERPRISE });
    expect(verdict.rateLimit).toBeUndefined();
  });

  test("is refused exactly where the clock is not before the expiry, wherever both are", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: minuteMs, max: 30 * dayMs }),
        fc.integer({ min: -2, max: 2 }),
        async (span, offset) => {
          const { value } = await keyUntil(clock.unixMs() + span);
          expect((await run(value)).kind).toBe("ok");
          clock.stepWall(span + offset);
          expect((await run(value)).kind).toBe(offset < 0 ? "ok" : "refused");
        },
      ),
      { numRuns: 30 },
    );
  });

  test("is told to be revoked before it is told to be expired, and neither where the secret is wrong", async () => {
    const { teamId, keyId, value } = await keyUntil(clock.unixMs() + minuteMs);
    clock.stepWall(minuteMs);
    const wrong = `${value.slice(0, -1)}${value.endsWith("0") ? "1" : "0"}`;
    expect(JSON.stringify(await run(wrong))).toContain("INVALID_API_KEY");
    expect(JSON.stringify(await run(value))).toContain("EXPIRED_API_KEY");
    await keyrun().keys.revokeKey({ teamId, keyId });
    expect(JSON.stringify(await run(value))).toContain("REVOKED_API_KEY");
    expect(await keyrun().keys.verifyKey({ value })).toMatchObject({ verdict: Verdict.REVOKED });
  });

  test("is marked by the sweep, and then refused whatever the clock does", async () => {
    const { teamId, keyId, value } = await keyUntil(clock.unixMs() + minuteMs);
    clock.stepWall(minuteMs);
    const marked = async () => (await keyrun().keys.listKeys({ teamId, showRevoked: true })).keys[0]?.state;
    await expect.poll(marked).toBe(KeyState.EXPIRED);
    clock.stepWall(-minuteMs);
    expect(JSON.stringify(await run(value))).toContain("EXPIRED_API_KEY");
    expect(await refusedCall(keyrun().keys.updateKey(later(teamId, keyId)))).toMatchObject({
      code: Code.FailedPrecondition,
      reason: "KEY_ENDED",
    });
    clock.stepWall(minuteMs);
  });

  const later = (teamId: string, keyId: string) => ({
    ...{ teamId, keyId, expireTime: timestampFromMs(clock.unixMs() + 1_000) },
    updateMask: { paths: ["expire_time"] },
  });

  test("counts no longer from its expiry on: it makes room, is not listed, and hinders no deletion of its team", async () => {
    const teamId = await keyrun().newTeam();
    const expireMs = clock.unixMs() + minuteMs;
    await Promise.all(Array.from({ length: 50 }, () => keyUntil(expireMs, teamId)));
    clock.stepWall(minuteMs - 1);
    expect(await refusedCall(keyrun().keys.createKey({ teamId }))).toMatchObject({
      reason: "KEY_LIMIT_REACHED",
    });
    expect(await refusedCall(keyrun().teams.deleteTeam({ teamId }))).toMatchObject({
      reason: "TEAM_HAS_KEYS",
    });
    clock.stepWall(1);
    const { key } = await keyrun().keys.createKey({ teamId });
    const listed = await keyrun().keys.listKeys({ teamId });
    expect(listed).toMatchObject({ keys: [key], activeKeyCount: 1, revokedKeyCount: 50 });
    expect(listed.keys).toHaveLength(1);
    await keyrun().keys.revokeKey({ teamId, keyId: key?.id ?? "" });
    await keyrun().teams.deleteTeam({ teamId });
  });

  test("is told to watchers as changed, once it is marked", async () => {
    const { teamId, keyId } = await keyUntil(clock.unixMs() + minuteMs);
    const ended = new AbortController();
    const watch = keyrun().keys.watchKeys({ teamId }, { signal: ended.signal })[Symbol.asyncIterator]();
    expect(await watch.next()).toMatchObject({ value: { event: { case: "opened" } } });
    clock.stepWall(minuteMs);
    expect(await watch.next()).toMatchObject({
      value: { event: { case: "changed", value: { id: keyId, state: KeyState.EXPIRED } } },
    });
    ended.abort();
  });

  test.each([
    ["less than a minute away", minuteMs - 1],
    ["past", -1],
    ["more than 10 years away", 3_653 * dayMs + 1],
  ])("is not created %s: the field is named", async (_, span) => {
    const teamId = await keyrun().newTeam();
    const expireTime = timestampFromMs(clock.unixMs() + span);
    const refusal = await refusedCall(keyrun().keys.createKey({ teamId, expireTime }));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_ARGUMENT" });
    expect(refusal.words).toContain("expire_time");
    expect((await keyrun().keys.listKeys({ teamId })).activeKeyCount).toBe(0);
  });
});

describe("answers to a key", () => {
  const headersOf = async (value: string, appId: string, caller: Caller) => {
    const { headers } = await caller.run({ appId, text: "x", authorization: `Bearer ${value}` });
    return headers.get("x-key-expires");
  };

  test("say when it expires in its last 14 days, also where they refuse, on every transport", async () => {
    const expireMs = clock.unixMs() + 15 * dayMs;
    const { value } = await keyUntil(expireMs);
    clock.stepWall(dayMs - 1);
    for (const caller of callers) expect(await headersOf(value, "echo", caller)).toBeNull();
    clock.stepWall(1);
    for (const caller of callers) {
      for (const appId of ["echo", "nowhere"]) {
        expect(await headersOf(value, appId, caller)).toBe(new Date(expireMs).toISOString());
      }
    }
  });

  test("say it where the team's limit refuses, and never to a key without an expiry", async () => {
    const teamId = await keyrun().newTeam();
    const { value } = await keyUntil(clock.unixMs() + dayMs, teamId);
    const lasting = await keyrun().newKey(teamId);
    expect(await headersOf(lasting.value, "echo", callers[0]!)).toBeNull();
    await keyrun().keys.verifyKey({ value, cost: 59 });
    for (const caller of callers) {
      const outcome = await run(value, caller);
      expect(outcome.kind).toBe("refused");
      expect(outcome.headers.get("x-key-expires")).toBe(new Date(clock.unixMs() + dayMs).toISOString());
    }
  });
});

describe("UpdateKey", () => {
  const mask = (...paths: string[]) => ({ updateMask: { paths } });

  test("changes the label alone, also of a key that has ended, and tells watchers", async () => {
    const teamId = await keyrun().newTeam();
    const { id: keyId } = await keyrun().newKey(teamId);
    const ended = new AbortController();
    const watch = keyrun().keys.watchKeys({ teamId }, { signal: ended.signal })[Symbol.asyncIterator]();
    await watch.next();
    const expireTime = timestampFromMs(clock.unixMs());
    const { key } = await keyrun().keys.updateKey({
      teamId,
      keyId,
      label: " new ",
      expireTime,
      ...mask("label"),
    });
    expect(key).toMatchObject({ id: keyId, label: "new", state: KeyState.ACTIVE });
    expect({ ...key }).not.toHaveProperty("expireTime");
    expect(await watch.next()).toMatchObject({
      value: { event: { case: "changed", value: { id: keyId, label: "new" } } },
    });
    ended.abort();
    await keyrun().keys.revokeKey({ teamId, keyId });
    const again = await keyrun().keys.updateKey({ teamId, keyId, ...mask("label") });
    expect(again.key).toMatchObject({ label: "", state: KeyState.REVOKED, revokedBy: "the service token" });
    expect(
      await refusedCall(keyrun().keys.updateKey({ teamId, keyId, expireTime, ...mask("expire_time") })),
    ).toEqual(expect.objectContaining({ code: Code.FailedPrecondition, reason: "KEY_ENDED" }));
  });

  test("brings an expiry forward, and a past one means now: the very next request is refused", async () => {
    const { teamId, keyId, value } = await keyUntil(clock.unixMs() + 30 * dayMs);
    const nearer = clock.unixMs() + 5_000;
    const update = (ms: number) =>
      keyrun().keys.updateKey({ teamId, keyId, expireTime: timestampFromMs(ms), ...mask("expire_time") });
    const { key } = await update(nearer);
    expect(key?.expireTime && timestampMs(key.expireTime)).toBe(nearer);
    expect(await refusedCall(update(nearer + 1))).toMatchObject({ code: Code.InvalidArgument });
    expect(await run(value)).toMatchObject({ kind: "ok" });
    const { key: over } = await update(1);
    expect(over?.state).toBe(KeyState.EXPIRED);
    expect(over?.expireTime && timestampMs(over.expireTime)).toBe(clock.unixMs());
    for (const caller of callers)
      expect(JSON.stringify(await run(value, caller))).toContain("EXPIRED_API_KEY");
  });

  test("gives a key without an expiry one", async () => {
    const teamId = await keyrun().newTeam();
    const { id: keyId, value } = await keyrun().newKey(teamId);
    const expireTime = timestampFromMs(clock.unixMs() + 1_000);
    await keyrun().keys.updateKey({ teamId, keyId, expireTime, ...mask("expire_time") });
    expect((await run(value)).kind).toBe("ok");
    clock.stepWall(1_000);
    expect(JSON.stringify(await run(value))).toContain("EXPIRED_API_KEY");
  });

  test.each([
    ["without a mask", {}, "update_mask"],
    ["with a field that can't change", mask("label", "app_ids"), "app_ids"],
    ["with an expiry that is named and not given", mask("expire_time"), "expire_time"],
    ["with a label that misleads", { label: "a\nb", ...mask("label") }, "label"],
  ])("%s is refused, and says by which name", async (_, fields, name) => {
    const teamId = await keyrun().newTeam();
    const { id: keyId } = await keyrun().newKey(teamId);
    const refusal = await refusedCall(keyrun().keys.updateKey({ teamId, keyId, ...fields }));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_ARGUMENT" });
    expect(refusal.words).toContain(name);
  });

  test("of another team's key, and of an unknown key, is refused alike", async () => {
    const [teamId, other] = [await keyrun().newTeam(), await keyrun().newTeam()];
    const { id: keyId } = await keyrun().newKey(other);
    const change = { label: "x", ...mask("label") };
    const foreign = await refusedCall(keyrun().keys.updateKey({ teamId, keyId, ...change }));
    const unknown = await refusedCall(keyrun().keys.updateKey({ teamId, keyId: "0".repeat(24), ...change }));
    expect(foreign.reason).toBe("KEY_NOT_FOUND");
    expect(unknown.words.replace("0".repeat(24), keyId)).toBe(foreign.words);
  });
});

test("the metrics count the keys that expire within 14 days", async () => {
  const time = createManualClock();
  const own = await startKeyrun({ clock: time });
  try {
    const teamId = await own.newTeam();
    for (const days of [1, 13, 15]) {
      const expireTime = timestampFromMs(time.unixMs() + days * dayMs);
      await own.keys.createKey({ teamId, expireTime });
    }
    const counted = () => own.metric("keyrun_expiring_keys");
    expect(await counted()).toBe(0);
    time.advance(minuteMs);
    await expect.poll(counted).toBe(2);
  } finally {
    await own.close();
  }
});
