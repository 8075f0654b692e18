import { create, type DescMethod, toBinary } from "@bufbuild/protobuf";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { KeyService, RevokeKeyRequestSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunAppRequestSchema, RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { Call, Principal } from "#src/auth/principal.ts";
import { systemClock } from "#src/base/clock.ts";
import type { BodyOutcome, HttpRequest } from "#src/http/handler.ts";
import { unlimitedReservation } from "#src/limit/byte-budget.ts";
import { fail } from "#src/refusal/refusal.ts";
import { frameOf } from "#src/rpc/grpc/frame.ts";
import { UnaryCall } from "#src/rpc/grpc/unary-call.ts";
import { openPolicy } from "../../harness/rpc-listener.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const whole: BodyOutcome = {
  kind: "whole",
  bytes: frameOf(toBinary(RunAppRequestSchema, create(RunAppRequestSchema, { appId: "echo", text: "x" }))),
};

/** Creates a call whose caller, body and work the test controls. */
function callOf({
  body = whole,
  timeout,
  method = RunService.method.runApp,
  principal = { kind: "service" },
}: {
  body?: BodyOutcome | Promise<BodyOutcome>;
  timeout?: string;
  method?: DescMethod;
  principal?: Principal;
} = {}) {
  const caller = new AbortController();
  const request: HttpRequest = {
    httpVersion: "2.0",
    method: "POST",
    target: "/",
    rawHeaders: [],
    header: (name) => (name === "grpc-timeout" ? timeout : undefined),
    authorizations: [],
    leaveBody: () => {},
    address: "192.0.2.1",
    isCounted: false,
    requestId: "req",
    readBody: () => body,
    bodyChunks: () => ({ async *[Symbol.asyncIterator]() {}, release: () => {} }),
    signal: caller.signal,
    reservation: unlimitedReservation,
  };
  const works: Call[] = [];
  const unauthorized: string[] = [];
  const answer = Promise.withResolvers<object>();
  const work = (_: unknown, call: unknown) => {
    works.push(call as Call);
    return answer.promise;
  };
  const unary = new UnaryCall(
    {
      policy: openPolicy,
      sessions: undefined,
      audit: {
        during: (_method, _called, work) => work(),
        unauthorized: ({ name }) => void unauthorized.push(name),
      },
      clock: systemClock,
      messageBytesMax: 100,
    },
    { method, work, unaryMsMax: 30_000 },
    { request, principal },
  );
  return { caller, works, answer, unary, unauthorized };
}

const refusal = (reason: string, mayHaveRun: boolean) => expect.objectContaining({ reason, mayHaveRun });

test("no timer is left after a call has ended, however it ended", async () => {
  const good = callOf();
  const frame = good.unary.run();
  good.answer.resolve({ text: "done" });
  expect(await frame).toBeInstanceOf(Uint8Array);
  expect(vi.getTimerCount()).toBe(0);

  const bad = callOf();
  const refused = bad.unary.run();
  bad.answer.reject(fail("APP_FAILED"));
  await expect(refused).rejects.toEqual(refusal("APP_FAILED", false));
  expect(vi.getTimerCount()).toBe(0);
});

test("work that ignores its signal delays its caller no longer than the deadline", async () => {
  const { unary, works } = callOf({ timeout: "200m" });
  const frame = unary.run();
  const late = expect(frame).rejects.toEqual(refusal("DEADLINE_EXCEEDED", true));
  await vi.advanceTimersByTimeAsync(0);
  expect(works[0]?.signal.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(200);
  await late;
  expect(works[0]?.signal.reason).toEqual(refusal("DEADLINE_EXCEEDED", true));
});

test("work that asks for its signal after the call has ended finds it aborted", async () => {
  const { unary, works, caller } = callOf();
  const frame = unary.run();
  const gone = expect(frame).rejects.toEqual(refusal("CANCELLED", false));
  await vi.advanceTimersByTimeAsync(0);
  caller.abort(fail("CANCELLED"));
  await gone;
  expect(works[0]?.signal.reason).toEqual(refusal("CANCELLED", false));
});

test("a drain that ends a call says whether its work may have been done", async () => {
  const draining = fail("UNAVAILABLE", { mayHaveRun: true });
  const running = callOf();
  const ended = expect(running.unary.run()).rejects.toEqual(refusal("UNAVAILABLE", true));
  await vi.advanceTimersByTimeAsync(0);
  running.caller.abort(draining);
  await ended;

  const waiting = callOf({ body: Promise.resolve({ kind: "gone", reason: draining }) });
  await expect(waiting.unary.run()).rejects.toEqual(refusal("UNAVAILABLE", false));
  expect(waiting.works).toEqual([]);
});

test("a call whose caller leaves before its work has begun does no work", async () => {
  const { unary, works, caller } = callOf();
  const gone = expect(unary.run()).rejects.toEqual(refusal("UNAVAILABLE", false));
  caller.abort(fail("UNAVAILABLE", { mayHaveRun: true }));
  await gone;
  expect(works).toEqual([]);
});

test("a body that arrives after the deadline does not start the work", async () => {
  const body = Promise.withResolvers<BodyOutcome>();
  const { unary, works } = callOf({ body: body.promise, timeout: "50m" });
  const late = expect(unary.run()).rejects.toEqual(refusal("DEADLINE_EXCEEDED", false));
  await vi.advanceTimersByTimeAsync(50);
  await late;
  body.resolve(whole);
  await vi.advanceTimersByTimeAsync(1);
  expect(works).toEqual([]);
});

test("a service that manages some teams does no work for another, and the attempt is written down", async () => {
  const service = { id: "t", name: "billing", role: "manage", teamIds: ["demo"] } as const;
  const revoking = (teamId: string) => {
    const message = create(RevokeKeyRequestSchema, { teamId, keyId: "k" });
    const bytes = frameOf(toBinary(RevokeKeyRequestSchema, message));
    return callOf({
      ...{ body: { kind: "whole", bytes }, method: KeyService.method.revokeKey },
      principal: { kind: "service", service },
    });
  };
  const own = revoking("demo");
  void own.unary.run();
  await vi.advanceTimersByTimeAsync(0);
  expect([own.works.length, own.unauthorized]).toEqual([1, []]);
  for (const teamId of ["acme", ""]) {
    const { unary, works, unauthorized } = revoking(teamId);
    await expect(unary.run()).rejects.toEqual(refusal("SERVICE_ROLE_REQUIRED", false));
    expect([works, unauthorized]).toEqual([[], ["RevokeKey"]]);
  }
});
