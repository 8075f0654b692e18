import { expect, test } from "vitest";
import type { WatchKeysRequest } from "#gen/keyrun/v1/key_service_pb.ts";
import type { Principal } from "#src/auth/principal.ts";
import { fail, type Refusal } from "#src/error.ts";
import { createKeyEvents } from "#src/keys/key-events.ts";
import { createWatchKeys } from "#src/keys/watch-keys.ts";
import { keyRecordOf, teamRecordOf } from "../harness/store-records.ts";

const principal: Principal = { kind: "session", sessionId: "s", email: "ada@example.com" };
const long = 60_000;

/** A watch of team `demo`, whose right to watch the test can take. */
function setUp({ heartbeatMs = long, recheckMs = long } = {}) {
  const events = createKeyEvents({ watchersMax: 1, perTeamMax: 1, queueMax: 10 });
  const access: { refusal?: Refusal; checks: number } = { checks: 0 };
  const endings = new Set<() => void>();
  const watchKeys = createWatchKeys({
    teams: { peek: (id) => (id === "demo" ? teamRecordOf({ id }) : null), load: async () => undefined },
    events,
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
  const gone = new AbortController();
  const call = { principal, requestId: "r", signal: gone.signal };
  const open = (teamId = "demo") => watchKeys({ teamId } as WatchKeysRequest, call);
  return { events, access, endings, gone, open };
}

test("the stream opens, tells changes, and beats while nothing happens", async () => {
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

test("the stream ends with the refusal, once who watches may no longer", async () => {
  const { access, open } = setUp({ recheckMs: 1 });
  const stream = open();
  await stream.next();
  const waiting = stream.next();
  access.refusal = fail("PREVIEW_REQUIRED");
  await expect(waiting).rejects.toMatchObject({ reason: "PREVIEW_REQUIRED" });
});

test("the end of the session is looked at when it happens, not at the next turn", async () => {
  const { access, endings, open } = setUp();
  const stream = open();
  await stream.next();
  const waiting = stream.next();
  access.refusal = fail("INVALID_CREDENTIAL");
  for (const tell of endings) tell();
  await expect(waiting).rejects.toMatchObject({ reason: "INVALID_CREDENTIAL" });
  expect(endings.size).toBe(0);
});

test("a caller who went away gives its place back at once, though nobody asks the stream again", async () => {
  const { access, endings, gone, open } = setUp({ recheckMs: 1 });
  await open().next();
  await expect(open().next()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  gone.abort();
  expect(endings.size).toBe(0);
  const checks = access.checks;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(access.checks).toBe(checks);
});
