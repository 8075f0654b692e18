import { expect, test } from "vitest";
import type { WatchKeysRequest } from "#gen/keyrun/v1/key_service_pb.ts";
import type { Principal } from "#src/auth/principal.ts";
import { createKeyEvents } from "#src/keys/key-events.ts";
import { createWatchKeys } from "#src/keys/watch-keys.ts";
import { fail, type Refusal } from "#src/refusal/refusal.ts";
import type { TeamRecord } from "#src/teams/team-store.ts";
import { serviceCall } from "../harness/service-call.ts";
import { keyRecordOf, teamRecordOf } from "../harness/store-records.ts";

const principal: Principal = { kind: "session", sessionId: "s", email: "ada@example.com" };
const long = 60_000;

/** A watch of team `demo`; the test can take the right to watch away. */
function setUp({ heartbeatMs = long, recheckMs = long } = {}) {
  const events = createKeyEvents({ watchersMax: 1, perTeamMax: 1, queueMax: 10 });
  const access: { refusal?: Refusal; checks: number } = { checks: 0 };
  const endings = new Set<() => void>();
  const world = { team: teamRecordOf({ id: "demo" }) as TeamRecord | undefined, mayAdmit: true };
  const teamOf = (id: string) => (id === "demo" ? world.team : undefined);
  const watchKeys = createWatchKeys({
    teams: { peek: teamOf, load: async (id) => teamOf(id) },
    events,
    mayAdmit: () => world.mayAdmit,
    checkAccess: async () => {
      access.checks += 1;
      if (access.refusal) throw access.refusal;
    },
    onSessionEnded: (_, listener) => {
      endings.add(listener);
      return () => endings.delete(listener);
    },
    heartbeatMs,
    recheckMs,
  });
  const caller = new AbortController();
  const call = serviceCall(principal, caller.signal);
  const open = (teamId = "demo") => watchKeys({ teamId } as WatchKeysRequest, call);
  return { events, access, world, endings, caller, open };
}

test("the stream sends opened, each change, and heartbeats while nothing changes", async () => {
  const { events, open } = setUp({ heartbeatMs: 1 });
  const stream = open();
  expect((await stream.next()).value).toEqual({ event: { case: "opened", value: {} } });
  expect((await stream.next()).value).toEqual({ event: { case: "heartbeat", value: {} } });
  events.publish({
    kind: "revoked",
    key: keyRecordOf({ id: "k", teamId: "demo", revokeTimeMs: 1, revokedBy: "lin@example.com" }),
  });
  expect((await stream.next()).value).toMatchObject({
    event: { case: "revoked", value: { id: "k", revokedBy: "lin@example.com" } },
  });
  await stream.return(undefined);
});

test("a team that does not exist is not watched", async () => {
  const { open } = setUp();
  await expect(open("nowhere").next()).rejects.toMatchObject({ reason: "TEAM_NOT_FOUND" });
});

test("the stream ends with the refusal once the caller may no longer watch", async () => {
  const { access, open } = setUp({ recheckMs: 1 });
  const stream = open();
  await stream.next();
  const waiting = stream.next();
  access.refusal = fail("PREVIEW_REQUIRED");
  await expect(waiting).rejects.toMatchObject({ reason: "PREVIEW_REQUIRED" });
});

test.each([
  ["the team is deleted, on whatever instance", { team: undefined }, "TEAM_NOT_FOUND"],
  ["another team got its id", { team: teamRecordOf({ id: "demo", createTimeMs: 1 }) }, "TEAM_NOT_FOUND"],
  ["this process would not learn of changes", { mayAdmit: false }, "UNAVAILABLE"],
])("the stream ends, and no other opens, once %s", async (_, change, reason) => {
  const { world, open } = setUp({ recheckMs: 1 });
  const stream = open();
  await stream.next();
  const waiting = stream.next();
  Object.assign(world, change);
  await expect(waiting).rejects.toMatchObject({ reason });
  if (world.team === undefined || !world.mayAdmit) {
    await expect(open().next()).rejects.toMatchObject({ reason });
  }
});

test("the end of the session is noticed at once, not at the next regular check", async () => {
  const { access, endings, open } = setUp();
  const stream = open();
  await stream.next();
  const waiting = stream.next();
  access.refusal = fail("INVALID_CREDENTIAL");
  for (const listener of endings) listener();
  await expect(waiting).rejects.toMatchObject({ reason: "INVALID_CREDENTIAL" });
  expect(endings.size).toBe(0);
});

test("a caller that disconnected frees its place at once, though the stream is never pulled again", async () => {
  const { access, endings, caller, open } = setUp({ recheckMs: 1 });
  await open().next();
  await expect(open().next()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  caller.abort();
  expect(endings.size).toBe(0);
  const checks = access.checks;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(access.checks).toBe(checks);
});
