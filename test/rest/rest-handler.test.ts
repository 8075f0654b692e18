import { create, type Message } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { RunAppResponseSchema, RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { Admission } from "#src/admission/admission.ts";
import { unguarded } from "#src/auth/key-evidence.ts";
import type { HttpRequest } from "#src/http/handler.ts";
import { unlimitedReservation } from "#src/limit/byte-budget.ts";
import type { LimitDecision } from "#src/limit/limit-decision.ts";
import type { RateReport } from "#src/limit/rate-limit-headers.ts";
import { fail } from "#src/refusal/refusal.ts";
import { createRestHandler } from "#src/rest/rest-handler.ts";
import { createTranscoder } from "#transcode/transcoder.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const nowMs = 1_700_000_000_000;
const ofTeam: LimitDecision = {
  ...{ accepted: true, limit: 300, remaining: 12, resetUnixMs: nowMs + 6_001, retryAfterMs: 0 },
};
const ofAddress: LimitDecision = { ...ofTeam, limit: 60, remaining: 59 };
const team: RateReport = { policy: "team", decision: ofTeam };
const principal = { kind: "api_key", keyId: "k", teamId: "demo", restrictions: null } as const;
const admitted: Admission = {
  ...{ kind: "admitted", principal, plan: "free", rate: team },
  rateNow: () => ({ ...team, decision: { ...ofTeam, remaining: 7 } }),
};

/** The rate-limit headers of the answer to a run, by name. The test gives the work. */
async function rateHeadersOf(
  admission: Admission,
  asked: { path?: string; method?: string; body?: string; work?: () => Message | Promise<Message> } = {},
) {
  const { path = "/api/apps/echo/run", method = "POST", body = '{"text":"hi"}' } = asked;
  const { work = () => create(RunAppResponseSchema) } = asked;
  const handler = createRestHandler({
    ...{ transcoder: createTranscoder([RunService]), clock: createManualClock(), bodyBytesMax: 100 },
    outcomes: { succeeded: () => {}, refused: () => {} },
    policy: { credentialOf: () => "api_key", requestBytesMaxOf: (_, usualMax) => usualMax },
    admit: async () => admission,
    allowance: { guard: unguarded, snapshot: () => ofAddress },
    methods: Object.values(RunService.method).map((each) => ({ method: each, answer: work })),
  });
  const request: HttpRequest = {
    ...{ httpVersion: "1.1", method, target: path, rawHeaders: [], header: () => undefined },
    ...{ authorizations: [], address: "192.0.2.1", isCounted: false, requestId: "r" },
    leaveBody: () => {},
    readBody: () => ({ kind: "whole", bytes: Buffer.from(body) }),
    bodyChunks: () => ({ async *[Symbol.asyncIterator]() {}, release: () => {} }),
    ...{ signal: new AbortController().signal, reservation: unlimitedReservation },
  };
  const { headers = [] } = await handler(request);
  const named = headers.flatMap((name, n) => (n % 2 === 0 ? [[name, headers[n + 1]]] : []));
  return Object.fromEntries(named.filter(([name]) => /^(RateLimit|Retry-After)/.test(String(name))));
}

const teamHeaders = {
  "RateLimit-Limit": "300",
  "RateLimit-Remaining": "12",
  "RateLimit-Reset": "1700000007",
  RateLimit: '"team";r=12;t=7',
  "RateLimit-Policy": '"team";q=300;w=60',
};
const addressHeaders = {
  ...teamHeaders,
  "RateLimit-Limit": "60",
  "RateLimit-Remaining": "59",
  RateLimit: '"address";r=59;t=7',
  "RateLimit-Policy": '"address";q=60;w=60',
};

test("a success says what the team has left at the moment of the answer", async () => {
  const now = { "RateLimit-Remaining": "7", RateLimit: '"team";r=7;t=7' };
  expect(await rateHeadersOf(admitted)).toEqual({ ...teamHeaders, ...now });
});

test.each([
  ["a body that is no JSON", { body: "{" }],
  ["a body that is too long for its method", { body: `{"text":"${"x".repeat(200)}"}` }],
  ["a run that fails at once", { work: () => Promise.reject(fail("APP_FAILED")) }],
])("a refusal of an admitted request has the team's headers, too: %s", async (_, asked) => {
  expect(await rateHeadersOf(admitted, asked)).toMatchObject({ "RateLimit-Remaining": "7" });
});

test("a request past the limit gets the same headers, and how long to wait", async () => {
  const decision = { ...ofTeam, accepted: false, retryAfterMs: 30_500 };
  const refusal = fail("RATE_LIMIT_EXCEEDED", { retryAfterMs: 30_500 });
  const limited: Admission = { kind: "refused", refusal, rate: { policy: "team", decision } };
  expect(await rateHeadersOf(limited)).toEqual({
    ...teamHeaders,
    ...{ "Retry-After": "31", "Retry-After-Ms": "30500" },
  });
});

test("without a valid key, or before the key is asked for, they are those of the address", async () => {
  const rate: RateReport = { policy: "address", decision: ofAddress };
  const invalid: Admission = { kind: "refused", refusal: fail("INVALID_API_KEY"), rate };
  expect(await rateHeadersOf(invalid)).toEqual(addressHeaders);
  expect(await rateHeadersOf(admitted, { method: "GET" })).toEqual(addressHeaders);
  expect(await rateHeadersOf(admitted, { path: "/api/apps/%ff/run" })).toEqual(addressHeaders);
});

test("an unknown path has none", async () => {
  expect(await rateHeadersOf(admitted, { path: "/nowhere" })).toEqual({});
});
