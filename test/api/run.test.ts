import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { type Reason, reasons } from "#src/refusal/reasons.ts";
import { fail } from "#src/refusal/refusal.ts";
import type { Stores } from "#src/store/stores.ts";
import type { Caller, RunOrder, RunOutcome } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { freePort } from "../harness/free-port.ts";
import { type IssuedKey, startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { everyCaller } from "./every-caller.ts";

const clock = createManualClock({ monotonicMs: 0, unixMs: 1_700_000_000_250 });
const broken = { keys: new Set<string>(), apps: new Map<string, unknown>() };

const app = closedAtEnd(await startScriptedApp());
const keyrun = closedAtEnd(
  await startKeyrun({
    // Whole milliseconds, as the real wall clock has.
    clock: { monotonicMs: clock.monotonicMs, unixMs: () => Math.floor(clock.unixMs()) },
    settings: { KEYRUN_TRUST_PROXY: "1", KEYRUN_APP_RUNS_MAX: "1", KEYRUN_BODY_BYTES_MAX: "4096" },
    onStores: breakable,
  }),
);
const { backend } = app;
await keyrun.apps.createApp({ app: { id: "scripted", backend } });
const nowhere = `http://127.0.0.1:${await freePort()}/`;
await keyrun.apps.createApp({
  app: { id: "unreachable", backend: { kind: { case: "http", value: { url: nowhere } } } },
});
await keyrun.apps.createApp({
  app: { id: "hasty", backend, timeout: { seconds: 0n, nanos: 300_000_000 } },
});

/** The real stores; a test can break the reading of one key or app. */
function breakable(stores: Stores): Stores {
  return {
    ...stores,
    keys: {
      ...stores.keys,
      find: async (keyId) => {
        if (broken.keys.has(keyId)) throw fail("UNAVAILABLE", { retryAfterMs: 1_000 });
        return stores.keys.find(keyId);
      },
    },
    apps: {
      ...stores.apps,
      find: async (appId) => {
        if (broken.apps.has(appId)) throw broken.apps.get(appId);
        return stores.apps.find(appId);
      },
    },
  };
}

let addressCount = 0;

/** An address that no other test calls from. */
function newAddress(): string {
  addressCount += 1;
  return `192.0.${Math.floor(addressCount / 250)}.${addressCount % 250}`;
}

describe.each(Object.entries(everyCaller))("%s", (name, make) => {
  const isRest = name.startsWith("REST");
  let caller: Caller;
  beforeAll(() => {
    caller = make(keyrun.publicUrl);
  });
  afterAll(() => caller.close());

  const bearer = (value: string) => `Bearer ${value}`;
  const run = (order: Partial<RunOrder>, address = newAddress()) =>
    caller.run({ appId: "echo", ...order, headers: { "x-forwarded-for": address, ...order.headers } });
  const newKey = async (plan?: Plan): Promise<IssuedKey> => keyrun.newKey(await keyrun.newTeam(plan));

  test("a run answers with the app's output, also where that is empty", async () => {
    const { value } = await newKey();
    for (const text of ["hello", "", "日本 \u{1f5dd}"]) {
      const outcome = await run({ text, authorization: bearer(value) });
      expect(outcome).toMatchObject({ kind: "ok", answer: { appId: "echo", text } });
      expect(outcome.kind === "ok" && outcome.answer.runId).toMatch(/^run_[0-9a-z]{24}$/);
    }
    expect(await run({ appId: "scripted", text: "hello", authorization: bearer(value) })).toMatchObject({
      answer: { appId: "scripted", text: "HELLO" },
    });
  });

  test("the scheme is read without case", async () => {
    const { value } = await newKey();
    expect(await run({ text: "x", authorization: `bEARER ${value}` })).toMatchObject({ kind: "ok" });
  });

  test.each([
    [Plan.FREE, 60],
    [Plan.PRO, 300],
    [Plan.TEAM, 600],
    [Plan.ENTERPRISE, 3000],
  ])("a success says what is left of the plan, in both forms of headers (plan %i)", async (plan, limit) => {
    const { value } = await newKey(plan);
    await run({ text: "first", authorization: bearer(value) });
    clock.advance(7_100);
    const { headers } = await run({ text: "second", authorization: bearer(value) });
    expect(rateHeaders(headers)).toEqual({
      "ratelimit-limit": String(limit),
      "ratelimit-remaining": String(limit - 2),
      "ratelimit-reset": String(Math.ceil((clock.unixMs() + 52_900) / 1000)),
      ratelimit: `"team";r=${limit - 2};t=53`,
      "ratelimit-policy": `"team";q=${limit};w=60`,
    });
  });

  test("a request id in the right form is returned, and any other is replaced by ours", async () => {
    const { value } = await newKey();
    const idFor = async (sent: string | undefined, authorization?: string) => {
      const headers = sent === undefined ? {} : { "x-request-id": sent };
      const outcome = await run({ text: "x", headers, ...(authorization && { authorization }) });
      return outcome.headers.get("x-request-id");
    };
    const ours = /^[A-Za-z0-9._-]{16,36}$/;
    for (const authorization of [bearer(value), undefined]) {
      const sent = `A-z_0.9${randomUUID()}`;
      expect(await idFor(sent, authorization)).toBe(sent);
      expect(await idFor("a b", authorization)).toMatch(ours);
      expect(await idFor("x".repeat(129), authorization)).toMatch(ours);
      expect(await idFor(undefined, authorization)).toMatch(ours);
    }
  });

  test("every answer has a date", async () => {
    const { value } = await newKey();
    const answers = [await run({ text: "x", authorization: bearer(value) }), await run({ text: "x" })];
    for (const { headers } of answers) expect(Date.parse(headers.get("date") ?? "")).not.toBeNaN();
  });

  describe("without a good key", () => {
    test.each([
      ["no Authorization", undefined, "MISSING_API_KEY"],
      ["an empty Authorization", "", "MISSING_API_KEY"],
      ["another scheme", "Basic a2V5OnJ1bg==", "MALFORMED_AUTHORIZATION"],
      ["a scheme alone", "Bearer", "MALFORMED_AUTHORIZATION"],
      ["more than a token", "Bearer one two", "MALFORMED_AUTHORIZATION"],
      ["a token that is no key", "Bearer hello", "INVALID_API_KEY"],
    ] as const)("%s is refused, and costs the address nothing", async (_, authorization, reason) => {
      const outcome = await run({ text: "x", ...(authorization !== undefined && { authorization }) });
      expectRefusal(outcome, { reason, rate: { policy: "address", remaining: 60 } });
      if (isRest) expect(outcome.headers.get("www-authenticate")).toBe(challengeFor(reason));
    });

    test("incomplete, mistyped, unknown and half-right keys get exactly the same sentence", async () => {
      const { value } = await newKey();
      const unknown = keyrun.unknownKey();
      const other = keyrun.unknownKey();
      const wrongSecret = value.slice(0, value.indexOf(".")) + other.slice(other.indexOf("."));
      await run({ text: "x", authorization: bearer(value) });
      const mistyped = value.slice(0, -1) + (value.endsWith("a") ? "b" : "a");
      const bad = [value.slice(0, -1), mistyped, unknown, wrongSecret, `${value}x`, value.toUpperCase()];
      for (const each of bad) {
        const outcome = await run({ text: "x", authorization: bearer(each) });
        expectRefusal(outcome, { reason: "INVALID_API_KEY", rate: "any" });
      }
    });

    test("an unknown key costs the address one look-up, and the answer says so", async () => {
      const address = newAddress();
      for (const remaining of [59, 58]) {
        const outcome = await run({ text: "x", authorization: bearer(keyrun.unknownKey()) }, address);
        expectRefusal(outcome, { reason: "INVALID_API_KEY", rate: { policy: "address", remaining } });
      }
    });

    test.each([
      ["cached", true],
      ["not cached", false],
    ])(
      "a revoked key that is %s is refused by the very next run, and only its owner learns it",
      async (_, isCached) => {
        const key = await newKey();
        const order = { text: "x", authorization: bearer(key.value) };
        if (isCached) expect(await run(order)).toMatchObject({ kind: "ok" });
        await keyrun.keys.revokeKey({ teamId: key.teamId, keyId: key.id });
        const revokeTime = new Date(clock.unixMs()).toISOString();
        const outcome = await run(order);
        expectRefusal(outcome, {
          reason: "REVOKED_API_KEY",
          rate: { policy: "address", remaining: 60 },
          message: `The API key was revoked at ${revokeTime} and will not work again. Create a new one.`,
          metadata: { revoke_time: revokeTime },
        });
        if (isRest) expect(outcome.headers.get("www-authenticate")).toBe(challengeFor("REVOKED_API_KEY"));
        const other = keyrun.unknownKey();
        const guessed = key.value.slice(0, key.value.indexOf(".")) + other.slice(other.indexOf("."));
        expectRefusal(await run({ ...order, authorization: bearer(guessed) }), {
          reason: "INVALID_API_KEY",
          rate: "any",
        });
      },
    );

    test("a store out of reach before the key is known is reported with the address's numbers", async () => {
      const key = await newKey();
      broken.keys.add(key.id);
      const outcome = await run({ text: "x", authorization: bearer(key.value) });
      expectRefusal(outcome, {
        reason: "UNAVAILABLE",
        rate: { policy: "address", remaining: 60 },
        retry: true,
      });
    });
  });

  describe("with a good key", () => {
    test("an app that does not exist, can't exist or is another team's gets the same answer", async () => {
      const { value } = await newKey();
      const otherTeam = await keyrun.newTeam();
      await keyrun.apps.createApp({
        app: { id: `of-${otherTeam}`, backend: { kind: { case: "echo", value: {} } }, teamIds: [otherTeam] },
      });
      let remaining = 60;
      for (const appId of ["nowhere", `of-${otherTeam}`, "Not-An-Id", "a/b", "x".repeat(64)]) {
        remaining -= 1;
        expectRefusal(await run({ appId, text: "x", authorization: bearer(value) }), {
          reason: "APP_NOT_FOUND",
          rate: { policy: "team", remaining },
          metadata: { app_id: appId },
        });
      }
    });

    test("an absent text is refused by its name, and still costs a request", async () => {
      const { value } = await newKey();
      expectRefusal(await run({ authorization: bearer(value) }), {
        reason: "INVALID_ARGUMENT",
        rate: { policy: "team", remaining: 59 },
        message: "text or input is required: a string, which may be empty, or a JSON object.",
        param: "text",
      });
    });

    test("a body past the bound is refused, and still costs a request", async () => {
      const { value } = await newKey();
      const outcome = await run({ text: "x".repeat(5_000), authorization: bearer(value) });
      const rate = { policy: "team", remaining: 59 } as const;
      if (isRest)
        expectRefusal(outcome, { reason: "REQUEST_TOO_LARGE", rate, metadata: { bytes_max: "4096" } });
      // A refusal of the RPC framing has no details, as that of any framework.
      else {
        expect(outcome).toMatchObject({
          kind: "refused",
          code: reasons.REQUEST_TOO_LARGE.code,
          message: expect.stringContaining("4096"),
          details: [],
        });
      }
      expectRate(outcome.headers, rate);
    });

    test("the answer to a backend that fails or is late says so, and that repeating could do the work twice", async () => {
      const { value } = await newKey();
      const authorization = bearer(value);
      const failed = await run({ appId: "scripted", text: "fail", authorization });
      expectRefusal(failed, {
        reason: "APP_FAILED",
        rate: { policy: "team", remaining: 59 },
        shouldNotRetry: true,
      });
      const late = await run({ appId: "hasty", text: "wait", authorization });
      expectRefusal(late, {
        reason: "APP_TIMEOUT",
        rate: { policy: "team", remaining: 58 },
        shouldNotRetry: true,
      });
    });

    test("an app that can't be reached has got nothing, so the run is safe to repeat; the log says why in one line", async () => {
      const { value } = await newKey();
      const outcome = await run({ appId: "unreachable", text: "x", authorization: bearer(value) });
      expectRefusal(outcome, {
        reason: "APP_UNREACHABLE",
        rate: { policy: "team", remaining: 59 },
        retry: true,
      });
      const requestId = outcome.headers.get("x-request-id");
      const lines = keyrun.logLines.filter((line) => line.includes(`"requestId":"${requestId}"`));
      expect(lines.map((line) => JSON.parse(line))).toMatchObject([
        { level: "warn", cause: expect.stringMatching(/^connect ECONNREFUSED 127\.0\.0\.1:\d+$/) },
      ]);
    });

    test("an app at its bound is busy, and says when to come back", async () => {
      const { value } = await newKey();
      const order = { appId: "scripted", text: "wait", authorization: bearer(value) };
      const running = run(order);
      await app.waits(1);
      expectRefusal(await run(order), {
        reason: "APP_BUSY",
        rate: { policy: "team", remaining: 58 },
        retry: true,
      });
      app.release();
      expect(await running).toMatchObject({ kind: "ok", answer: { text: "released" } });
    });

    test("a late answer says what is left when it is sent", async () => {
      const { value } = await newKey();
      const authorization = bearer(value);
      const held = run({ appId: "scripted", text: "wait", authorization });
      await app.waits(1);
      for (const text of ["meanwhile", "and again"]) await run({ text, authorization });
      app.release();
      expectRate((await held).headers, { policy: "team", remaining: 57 });
    });

    test("a fault of ours is reported without its cause", async () => {
      const { value } = await newKey();
      const appId = `faulty-${randomUUID()}`;
      broken.apps.set(appId, new Error(`disk on fire near ${value}`));
      const outcome = await run({ appId, text: "x", authorization: bearer(value) });
      expectRefusal(outcome, { reason: "INTERNAL", rate: { policy: "team", remaining: 59 } });
    });

    test("a store out of reach once the key is known is reported with the team's numbers", async () => {
      const { value } = await newKey();
      const appId = `away-${randomUUID()}`;
      broken.apps.set(appId, fail("UNAVAILABLE", { retryAfterMs: 1_000 }));
      const outcome = await run({ appId, text: "x", authorization: bearer(value) });
      expectRefusal(outcome, { reason: "UNAVAILABLE", rate: { policy: "team", remaining: 59 }, retry: true });
    });
  });

  describe("past the limit", () => {
    test("the team is refused, waits as long as the answer says, to the millisecond, and is served", async () => {
      const { value } = await newKey();
      const order = { text: "x", authorization: bearer(value) };
      for (let i = 0; i < 60; i++) {
        expect(await run(order)).toMatchObject({ kind: "ok" });
        clock.advance(100.5);
      }
      const refused = await run(order);
      expectRefusal(refused, {
        reason: "RATE_LIMIT_EXCEEDED",
        rate: { policy: "team", remaining: 0 },
        metadata: { subject: "team", limit: "60", retry_after_s: "54" },
        message: "The team has used its 60 requests a minute. Try again in 54 s.",
      });
      expect(refused.headers.get("retry-after")).toBe("54");
      expect(refused.headers.get("retry-after-ms")).toBe("53970");
      clock.advance(53_969);
      expect(await run(order)).toMatchObject({ kind: "refused" });
      clock.advance(1);
      expect(await run(order)).toMatchObject({ kind: "ok" });
      expect(await run(order)).toMatchObject({ kind: "refused" });
    });

    test("a refused request spends nothing, and the wait is never 0 nor above a minute", async () => {
      const { value } = await newKey();
      const order = { text: "x", authorization: bearer(value) };
      for (let i = 0; i < 60; i++) await run(order);
      const refused = await run(order);
      expect(refused.headers.get("retry-after")).toBe("60");
      for (let i = 0; i < 5; i++) expect(await run(order)).toMatchObject({ kind: "refused" });
      clock.advance(59_999.5);
      expect((await run(order)).headers.get("retry-after")).toBe("1");
      clock.advance(0.5);
      const { headers } = await run(order);
      expect(headers.get("ratelimit-remaining")).toBe("59");
    });

    test("every request with a good key spends one, also when it is refused later, and the limit goes before app and text", async () => {
      const { value } = await newKey();
      const authorization = bearer(value);
      const orders = [{ text: "x" }, { appId: "nowhere", text: "x" }, {}];
      for (let i = 0; i < 60; i++) await run({ ...orders[i % 3], authorization });
      for (const order of orders) {
        expect(await run({ ...order, authorization })).toMatchObject({
          kind: "refused",
          code: reasons.RATE_LIMIT_EXCEEDED.code,
        });
      }
    });

    test("a change of plan counts from the next request, and keeps what was spent", async () => {
      const { value, teamId } = await newKey();
      const order = { text: "x", authorization: bearer(value) };
      for (let i = 0; i < 60; i++) await run(order);
      expect(await run(order)).toMatchObject({ kind: "refused" });
      const setPlan = (plan: Plan) =>
        keyrun.teams.updateTeam({ team: { id: teamId, plan }, updateMask: { paths: ["plan"] } });
      await setPlan(Plan.PRO);
      const { headers } = await run(order);
      expect(headers.get("ratelimit-remaining")).toBe("239");
      await setPlan(Plan.FREE);
      expect(await run(order)).toMatchObject({ kind: "refused" });
    });
  });
});

interface ExpectedRefusal {
  readonly reason: Reason;
  readonly rate: { readonly policy: "team" | "address"; readonly remaining: number } | "any";
  readonly message?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly param?: string;
  /** Whether the answer asks for a wait of one second. */
  readonly retry?: boolean;
  readonly shouldNotRetry?: boolean;
}

/** Checks everything that the contract says of a refusal, over any transport. */
function expectRefusal(outcome: RunOutcome, expected: ExpectedRefusal): void {
  const { reason, rate, metadata = {} } = expected;
  if (outcome.kind === "ok") throw new Error(`Expected ${reason}, but the run succeeded.`);
  const row = reasons[reason];
  const { code, message, httpStatus, headers } = outcome;
  expect({ code, message }).toEqual({
    code: row.code,
    message: expected.message ?? row.words.replace("{bytes_max}", metadata.bytes_max ?? ""),
  });
  if (httpStatus !== undefined) expect(httpStatus).toBe(row.httpStatus);
  expect(outcome.details).toEqual(expectedDetails(outcome, expected));
  if (rate === "any") expect(headers.get("ratelimit-policy")).toBe('"address";q=60;w=60');
  else expectRate(headers, rate);
  expect(headers.get("x-request-id")).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
  expect(headers.get("x-should-retry")).toBe(expected.shouldNotRetry ? "false" : null);
  if (reason === "RATE_LIMIT_EXCEEDED") return;
  // RPC callers find it in RetryInfo, too.
  expect(headers.get("retry-after")).toBe(expected.retry ? "1" : null);
  expect(headers.get("retry-after-ms")).toBeNull();
}

function expectRate(headers: Headers, { policy, remaining }: Exclude<ExpectedRefusal["rate"], "any">): void {
  expect(rateHeaders(headers)).toEqual({
    "ratelimit-limit": "60",
    "ratelimit-remaining": String(remaining),
    "ratelimit-reset": expect.stringMatching(/^\d{10}$/),
    ratelimit: expect.stringMatching(`^"${policy}";r=${remaining};t=\\d+$`),
    "ratelimit-policy": `"${policy}";q=60;w=60`,
  });
}

function expectedDetails(outcome: RunOutcome, { reason, metadata = {}, param, retry }: ExpectedRefusal) {
  const type = (name: string) => ({ "@type": `type.googleapis.com/google.rpc.${name}` });
  const message = outcome.kind === "refused" ? outcome.message : "";
  const info = { ...type("ErrorInfo"), reason, domain: "keyrun" };
  const details: object[] = [Object.keys(metadata).length > 0 ? { ...info, metadata } : info];
  if (param !== undefined) {
    const violation = { field: param, description: message, reason };
    details.push({ ...type("BadRequest"), fieldViolations: [violation] });
  }
  if (reason === "RATE_LIMIT_EXCEEDED") {
    details.push({ ...type("QuotaFailure"), violations: [{ subject: "team", description: message }] });
    const seconds = Number(outcome.headers.get("retry-after-ms")) / 1000;
    details.push({ ...type("RetryInfo"), retryDelay: `${seconds.toFixed(3)}s` });
  }
  if (retry) details.push({ ...type("RetryInfo"), retryDelay: "1s" });
  return details;
}

function challengeFor(reason: Reason): string {
  return reason === "MISSING_API_KEY" || reason === "MALFORMED_AUTHORIZATION"
    ? 'Bearer realm="keyrun"'
    : 'Bearer realm="keyrun", error="invalid_token"';
}

/** The headers that describe a limit. */
function rateHeaders(headers: Headers): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => name.startsWith("ratelimit")));
}
