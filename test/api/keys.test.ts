import { randomUUID } from "node:crypto";
import { timestampDate, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { agedKeyrun } from "./aged-keyrun.ts";
import { refusedCall } from "./refused-call.ts";

const { clock, callers, keyrun, run } = agedKeyrun();

describe("creating", () => {
  test("returns the full value once, and a key that shows it only redacted", async () => {
    const teamId = await keyrun().newTeam();
    const { key, value } = await keyrun().keys.createKey({ teamId, label: "  build server " });
    expect(value).toMatch(/^svc_[0-9a-hjkmnp-tv-z]{24}\.[0-9A-Za-z]{49}$/);
    expect(key).toMatchObject({
      id: value.slice(4, 28),
      teamId,
      label: "build server",
      redactedValue: `${value.slice(0, 8)}…${value.slice(-4)}`,
      createdBy: "the service token",
      state: KeyState.ACTIVE,
      requestId: "",
    });
    expect(key?.createTime && timestampMs(key.createTime)).toBe(clock.unixMs());
    expect({ ...key }).not.toHaveProperty("lastUseTime");
    const listed = await keyrun().keys.listKeys({ teamId });
    expect(listed).toMatchObject({
      keys: [key],
      activeKeyCount: 1,
      activeKeyCountMax: 50,
      nextPageToken: "",
    });
    const everything = JSON.stringify(listed, (_, each) => (typeof each === "bigint" ? String(each) : each));
    expect(everything).not.toContain(value.slice(29));
    expect(await run(value)).toMatchObject({ kind: "ok" });
  });

  test("with a used request id names the key that it made, and never returns the value again", async () => {
    const teamId = await keyrun().newTeam();
    const requestId = randomUUID();
    const { key, value } = await keyrun().keys.createKey({ teamId, requestId });
    expect(key?.requestId).toBe(requestId);
    const again = await refusedCall(keyrun().keys.createKey({ teamId, requestId: requestId.toUpperCase() }));
    expect(again).toMatchObject({
      code: Code.AlreadyExists,
      reason: "REQUEST_ID_USED",
      metadata: { key_id: key?.id },
    });
    expect(JSON.stringify(again)).not.toContain(value.slice(29));
    const otherTeam = await keyrun().newTeam();
    expect((await keyrun().keys.createKey({ teamId: otherTeam, requestId })).key?.id).not.toBe(key?.id);
  });

  test("stops at the team's limit, and a revoked key makes room", async () => {
    const teamId = await keyrun().newTeam();
    const made = await Promise.all(Array.from({ length: 50 }, () => keyrun().newKey(teamId)));
    const refusal = await refusedCall(keyrun().keys.createKey({ teamId }));
    expect(refusal).toMatchObject({
      code: Code.FailedPrecondition,
      reason: "KEY_LIMIT_REACHED",
      metadata: { active_key_count_max: "50" },
    });
    await keyrun().keys.revokeKey({ teamId, keyId: made[7]?.id ?? "" });
    expect((await keyrun().keys.createKey({ teamId })).key?.state).toBe(KeyState.ACTIVE);
  });

  test.each([
    ["a label of 129 code points", { label: "\u{1f5dd}".repeat(129) }],
    ["a label with a line break", { label: "a\nb" }],
    ["a label that turns the text around", { label: "a‮b" }],
    ["a request id that is no UUID", { requestId: "once" }],
  ])("with %s is refused by the field's name", async (_, fields) => {
    const teamId = await keyrun().newTeam();
    const refusal = await refusedCall(keyrun().keys.createKey({ teamId, ...fields }));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_ARGUMENT" });
  });

  test("for a team that does not exist is NOT_FOUND", async () => {
    expect(await refusedCall(keyrun().keys.createKey({ teamId: "nobody" }))).toMatchObject({
      code: Code.NotFound,
      reason: "TEAM_NOT_FOUND",
    });
  });
});

describe("last used", () => {
  test("is absent until the first use, and then the time of the latest, also before it is written", async () => {
    const teamId = await keyrun().newTeam();
    const { value } = await keyrun().newKey(teamId);
    const lastUse = async () => {
      const { keys } = await keyrun().keys.listKeys({ teamId });
      return keys[0]?.lastUseTime && timestampDate(keys[0].lastUseTime).getTime();
    };
    expect(await lastUse()).toBeUndefined();
    for (const caller of callers) {
      clock.advance(1_000);
      await run(value, caller);
      expect(await lastUse()).toBe(clock.unixMs());
    }
    const used = clock.unixMs();
    clock.advance(1_000);
    await keyrun().keys.verifyKey({ value, cost: 0 });
    await run(`${value.slice(0, -1)}!`);
    expect(await lastUse()).toBe(used);
    await keyrun().keys.verifyKey({ value, cost: 1 });
    expect(await lastUse()).toBe(used + 1_000);
  });

  test("counts a run whatever its answer, also one that the limit refused", async () => {
    const teamId = await keyrun().newTeam();
    const { value } = await keyrun().newKey(teamId);
    const authorization = `Bearer ${value}`;
    for (let i = 0; i < 60; i++) await callers[0]?.run({ appId: "nowhere", text: "x", authorization });
    clock.advance(1_000);
    expect(await run(value)).toMatchObject({ kind: "refused", httpStatus: 429 });
    const { keys } = await keyrun().keys.listKeys({ teamId });
    expect(keys[0]?.lastUseTime && timestampMs(keys[0].lastUseTime)).toBe(clock.unixMs());
  });
});

describe("revoking", () => {
  // `run.test.ts` refuses the runs over every transport.
  test.each([true, false])(
    "is told by VerifyKey at once, whether the key is cached: %s",
    async (isCached) => {
      const { id, teamId, value } = await keyrun().newKey(await keyrun().newTeam());
      if (isCached) expect(await run(value)).toMatchObject({ kind: "ok" });
      await keyrun().keys.revokeKey({ teamId, keyId: id });
      expect(await keyrun().keys.verifyKey({ value })).toMatchObject({ verdict: Verdict.REVOKED, keyId: id });
    },
  );

  test("a second time is no error, and keeps the first time and actor", async () => {
    const { id, teamId } = await keyrun().newKey(await keyrun().newTeam());
    const first = await keyrun().keys.revokeKey({ teamId, keyId: id });
    expect(first.key).toMatchObject({ state: KeyState.REVOKED, revokedBy: "the service token" });
    clock.advance(5_000);
    expect((await keyrun().keys.revokeKey({ teamId, keyId: id })).key).toEqual(first.key);
  });

  test("hides the key from the list unless revoked keys are asked for, and no longer counts it", async () => {
    const { id, teamId } = await keyrun().newKey(await keyrun().newTeam());
    await keyrun().keys.revokeKey({ teamId, keyId: id });
    expect(await keyrun().keys.listKeys({ teamId })).toMatchObject({ keys: [], activeKeyCount: 0 });
    const { keys } = await keyrun().keys.listKeys({ teamId, showRevoked: true });
    expect(keys).toMatchObject([{ id, state: KeyState.REVOKED }]);
  });

  test("without a key's id is refused by the field's name", async () => {
    const teamId = await keyrun().newTeam();
    const refusal = await refusedCall(keyrun().keys.revokeKey({ teamId, keyId: "" }));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_ARGUMENT" });
    expect(refusal.words).toBe("key_id is required.");
  });

  test("another team's key and an unknown key are refused with the same sentence", async () => {
    const { id } = await keyrun().newKey(await keyrun().newTeam());
    const teamId = await keyrun().newTeam();
    const anothers = await refusedCall(keyrun().keys.revokeKey({ teamId, keyId: id }));
    const nobodys = await refusedCall(keyrun().keys.revokeKey({ teamId, keyId: id.replace(/^../, "00") }));
    expect(anothers).toMatchObject({ code: Code.NotFound, reason: "KEY_NOT_FOUND" });
    expect(nobodys.words.replace(/`00\w+`/, `\`${id}\``)).toBe(anothers.words);
  });
});

describe("verifying", () => {
  test("a good key spends its cost, 1 where none is named, and 0 only looks", async () => {
    const { id, teamId, value } = await keyrun().newKey(await keyrun().newTeam(Plan.PRO));
    const remaining = async (cost?: number) => {
      const answer = await keyrun().keys.verifyKey({ value, ...(cost !== undefined && { cost }) });
      expect(answer).toMatchObject({ verdict: Verdict.VALID, keyId: id, teamId, plan: Plan.PRO });
      return answer.rateLimit?.remaining;
    };
    expect(await remaining()).toBe(299);
    expect(await remaining(0)).toBe(299);
    expect(await remaining(99)).toBe(200);
    expect(await remaining(200)).toBe(0);
    expect(await remaining(0)).toBe(0);
  });

  test("takes a cost whole or not at all, and says how long to wait", async () => {
    const { value } = await keyrun().newKey(await keyrun().newTeam());
    await keyrun().keys.verifyKey({ value, cost: 40 });
    clock.advance(10_000);
    const limited = await keyrun().keys.verifyKey({ value, cost: 21 });
    expect(limited).toMatchObject({
      verdict: Verdict.RATE_LIMITED,
      rateLimit: { limit: 60, remaining: 20, retryAfter: { seconds: 50n, nanos: 0 } },
    });
    expect((await keyrun().keys.verifyKey({ value, cost: 20 })).rateLimit?.remaining).toBe(0);
  });

  test("a text that is no key, and an unknown key, are INVALID without any detail", async () => {
    for (const value of ["nonsense", keyrun().unknownKey()]) {
      const { $typeName, ...answer } = await keyrun().keys.verifyKey({ value });
      expect(answer).toEqual({ verdict: Verdict.INVALID, keyId: "", teamId: "", plan: Plan.UNSPECIFIED });
    }
  });

  test.each([-1, 61, 2_147_483_647])("a cost of %i is refused by its name", async (cost) => {
    const { value } = await keyrun().newKey(await keyrun().newTeam());
    expect(await refusedCall(keyrun().keys.verifyKey({ value, cost }))).toMatchObject({
      code: Code.InvalidArgument,
      words: expect.stringContaining("cost"),
    });
  });

  test("shares the team's limit with its runs", async () => {
    const { value } = await keyrun().newKey(await keyrun().newTeam());
    await run(value);
    const { rateLimit } = await keyrun().keys.verifyKey({ value, cost: 9 });
    expect(rateLimit?.remaining).toBe(50);
    expect((await run(value)).headers.get("ratelimit-remaining")).toBe("49");
  });
});

describe("listing", () => {
  test("goes newest first, page by page, without a gap or a repeat", async () => {
    const teamId = await keyrun().newTeam();
    const made: { id: string; at: number }[] = [];
    for (let i = 0; i < 7; i++) {
      made.push({ id: (await keyrun().newKey(teamId)).id, at: clock.unixMs() });
      // Some keys share a millisecond.
      clock.advance(i % 2 ? 0 : 5);
    }
    made.sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
    const seen: string[] = [];
    let pageToken = "";
    do {
      const page = await keyrun().keys.listKeys({ teamId, pageSize: 3, pageToken });
      expect(page.keys.length).toBeLessThanOrEqual(3);
      seen.push(...page.keys.map(({ id }) => id));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    expect(seen).toEqual(made.map(({ id }) => id));
  });

  test("refuses a page token of another list, an invalid one, and a negative size", async () => {
    const [mine, other] = [await keyrun().newTeam(), await keyrun().newTeam()];
    for (let i = 0; i < 2; i++) await keyrun().newKey(mine);
    const { nextPageToken: pageToken } = await keyrun().keys.listKeys({ teamId: mine, pageSize: 1 });
    expect(pageToken).not.toBe("");
    for (const bad of [
      { teamId: other, pageToken },
      { teamId: mine, pageToken, showRevoked: true },
      { teamId: mine, pageToken: "nonsense" },
      { teamId: mine, pageSize: -1 },
    ]) {
      expect(await refusedCall(keyrun().keys.listKeys(bad))).toMatchObject({ code: Code.InvalidArgument });
    }
  });
});
