import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { KeyService, RevokeKeyRequestSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import type { Call } from "#src/auth/principal.ts";
import { fail } from "#src/refusal/refusal.ts";
import { CallDeadline } from "#src/rpc/call-deadline.ts";
import { invokeOnce } from "#src/rpc/invoke.ts";
import { openPolicy } from "../harness/rpc-listener.ts";

const message = create(RevokeKeyRequestSchema, { teamId: "demo" });

/** A call of a member, whose steps and whose membership the test sees and controls. */
function invoked() {
  const steps: string[] = [];
  const caller = new AbortController();
  const membership = Promise.withResolvers<void>();
  const deadline = new CallDeadline(caller.signal);
  const principal = { kind: "session", sessionId: "s", email: "ann@example.com" } as const;
  const call = { principal, signal: deadline.signal } as Call;
  /** Notes the step, and takes it. */
  const step = <T>(name: string, result: T): T => {
    steps.push(name);
    return result;
  };
  const sessions = {
    requireMember: () => step("member", membership.promise),
    noteActivity: async () => step("activity", undefined),
  };
  const answer = invokeOnce(
    {
      policy: { ...openPolicy, credentialOf: () => "preview_session", isActivity: () => true },
      sessions: sessions as never,
      audit: {
        during: (_method, _called, work) => step("event", work)(),
        unauthorized: ({ name }, _request, { refusal }) => step(`${name}: ${refusal.reason}`, undefined),
      },
    },
    { method: KeyService.method.revokeKey, work: () => step("work", "answer"), unaryMsMax: 1_000 },
    { call, deadline, read: () => step("read", message), timeoutMs: undefined },
  );
  return { steps, caller, membership, answer };
}

test("a message is read, then its team is asked for, then the event of the work begins", async () => {
  const { steps, membership, answer } = invoked();
  membership.resolve();
  expect(await answer).toBe("answer");
  expect(steps).toEqual(["read", "member", "activity", "event", "work"]);
});

test("a call for the team of others has no event but that of its attempt, and does no work", async () => {
  const { steps, membership, answer } = invoked();
  membership.reject(fail("TEAM_NOT_FOUND"));
  await expect(answer).rejects.toMatchObject({ reason: "TEAM_NOT_FOUND" });
  expect(steps).toEqual(["read", "member", "RevokeKey: TEAM_NOT_FOUND"]);
});

test("a call that ends while its team is asked for has done nothing, and is told so", async () => {
  const { steps, caller, membership, answer } = invoked();
  await Promise.resolve();
  caller.abort(fail("UNAVAILABLE", { mayHaveRun: true }));
  await expect(answer).rejects.toMatchObject({ reason: "UNAVAILABLE", mayHaveRun: false });
  membership.resolve();
  await new Promise(setImmediate);
  expect(steps).toEqual(["read", "member", "activity"]);
});
