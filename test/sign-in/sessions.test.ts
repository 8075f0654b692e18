import { randomBytes } from "node:crypto";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { bounds } from "#src/bounds.ts";
import { createFlooredCache } from "#src/cache/floored-cache.ts";
import { createSecurityState } from "#src/fleet/security-state.ts";
import { fail } from "#src/refusal/refusal.ts";
import { createSessions, hashToken, sessionVersionOf } from "#src/sign-in/sessions.ts";
import type { SessionRecord } from "#src/sign-in/sign-in-store.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const folders = tempFolders();
const opened: Stores[] = [];
afterAll(async () => {
  for (const stores of opened) await stores.close();
});

const ada = { issuer: "https://id.example", subject: "ada", email: "ada@example.com" };

async function setUp() {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  opened.push(stores);
  const clock = createManualClock();
  /** Called between a read of the store and its result. A test sets it. */
  const during = { read: async () => {} };
  const hold = { holds: true };
  const find = async (id: string) => {
    const found = await stores.sessions.find(id);
    await during.read();
    return found;
  };
  const failures: unknown[] = [];
  const onSweepFailed = (cause: unknown) => void failures.push(cause);
  const store = stores.sessions;
  /** The sessions of one instance. */
  const instance = () => {
    const cache = createFlooredCache<SessionRecord>({
      clock,
      entriesMax: 100,
      ttlMs: bounds.verifiedKeyTtlMs,
      absentMax: 100,
      absentTtlMs: bounds.absentKeyTtlMs,
      floorRetentionMs: bounds.floorRetentionMs,
      versionOf: sessionVersionOf,
      load: find,
    });
    const changeSecurityState = createSecurityState({ floors: { session: cache } });
    const reads = { reread: find, mayAdmit: () => hold.holds };
    const parts = {
      clock,
      store,
      cache,
      ...reads,
      changeSecurityState,
      randomBytes,
      onSweepFailed,
      sweepMs: 1,
    };
    return createSessions(parts);
  };
  const sessions = instance();
  return { stores, clock, sessions, instance, hold, during, failures };
}

let world: Awaited<ReturnType<typeof setUp>>;
beforeEach(async () => {
  world = await setUp();
});

const idOf = (token: string) => hashToken(token) ?? "";

describe("a session", () => {
  test("identifies the person who signed in, by a token of 256 bits that the store does not hold", async () => {
    const { sessions, stores } = world;
    const token = await sessions.begin(ada);
    expect(Buffer.from(token, "base64url")).toHaveLength(32);
    expect(await sessions.find(token)).toEqual({
      kind: "session",
      sessionId: idOf(token),
      email: "ada@example.com",
    });
    expect(await stores.sessions.find(token)).toBeUndefined();
    expect(JSON.stringify(await stores.sessions.find(idOf(token)))).not.toContain(token);
  });

  test("is not found by a text that is not its token", async () => {
    const { sessions } = world;
    const token = await sessions.begin(ada);
    const wrong = [
      "",
      "x",
      `${token}x`,
      token.slice(1),
      idOf(token),
      token.toLowerCase(),
      `${token.slice(0, 42)}=`,
    ];
    for (const each of wrong) expect(await sessions.find(each)).toBeUndefined();
  });

  test("ends after 30 idle minutes, and reading it is no activity", async () => {
    const { sessions, clock } = world;
    const token = await sessions.begin(ada);
    for (let minutes = 0; minutes < 29; minutes++) {
      clock.advance(60_000);
      expect(await sessions.find(token)).toBeDefined();
      expect(await sessions.isLive(idOf(token))).toBe(true);
    }
    clock.advance(59_999);
    expect(await sessions.find(token)).toBeDefined();
    clock.advance(1);
    expect(await sessions.find(token)).toBeUndefined();
    expect(await sessions.isLive(idOf(token))).toBe(false);
  });

  test("lasts longer with activity, but never longer than 12 hours", async () => {
    const { sessions, clock } = world;
    const token = await sessions.begin(ada);
    const quarter = 15 * 60_000;
    for (let quarters = 1; quarters < 12 * 4; quarters++) {
      clock.advance(quarter);
      await sessions.noteActivity(idOf(token));
      expect(await sessions.find(token)).toBeDefined();
    }
    clock.advance(quarter);
    await sessions.noteActivity(idOf(token));
    expect(await sessions.find(token)).toBeUndefined();
  });

  test("lasts longer after activity even if it was cached before", async () => {
    const { sessions, clock } = world;
    const token = await sessions.begin(ada);
    clock.advance(bounds.sessionIdleMsMax - 10);
    await sessions.find(token);
    await sessions.noteActivity(idOf(token));
    clock.advance(10);
    expect(await sessions.find(token)).toBeDefined();
  });

  test("goes on where the store is full and can't note an activity, which may be a revocation", async () => {
    const { sessions, stores, clock } = world;
    const token = await sessions.begin(ada);
    clock.advance(bounds.sessionIdleMsMax - 1);
    const touch = vi.spyOn(stores.sessions, "touch").mockRejectedValueOnce(fail("STORE_FULL"));
    await sessions.noteActivity(idOf(token));
    expect(touch).toHaveBeenCalledOnce();
    expect(await sessions.find(token)).toBeDefined();
    clock.advance(1);
    expect(await sessions.find(token)).toBeUndefined();
    touch.mockRejectedValueOnce(fail("UNAVAILABLE"));
    const other = await sessions.begin(ada);
    await expect(sessions.noteActivity(idOf(other))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  });

  test("that is over does not come back by activity", async () => {
    const { sessions, clock } = world;
    const token = await sessions.begin(ada);
    clock.advance(bounds.sessionIdleMsMax);
    await sessions.noteActivity(idOf(token));
    expect(await sessions.find(token)).toBeUndefined();
  });

  test("is new with each sign-in, and the browser's old one is ended", async () => {
    const { sessions } = world;
    const first = await sessions.begin(ada);
    expect(await sessions.find(first)).toBeDefined();
    const second = await sessions.begin(ada, first);
    expect(second).not.toBe(first);
    expect(await sessions.find(first)).toBeUndefined();
    expect(await sessions.find(second)).toBeDefined();
    expect(await sessions.find(await sessions.begin(ada, "not a token"))).toBeDefined();
  });
});

describe("a session on two instances", () => {
  test("is not idle for one while the person is active on the other", async () => {
    const { sessions, instance, clock } = world;
    const other = instance();
    const token = await sessions.begin(ada);
    clock.advance(bounds.sessionIdleMsMax - 10);
    expect(await sessions.find(token)).toBeDefined();
    await other.noteActivity(idOf(token));
    clock.advance(10);
    expect(await sessions.find(token)).toBeDefined();
    expect(await sessions.isLive(idOf(token))).toBe(true);
    await sessions.noteActivity(idOf(token));
    clock.advance(bounds.sessionIdleMsMax - 1);
    expect(await other.find(token)).toBeDefined();
    clock.advance(1);
    expect(await other.find(token)).toBeUndefined();
    expect(await sessions.find(token)).toBeUndefined();
  });

  test("is over at once where it was idle here and was ended on the other, also while it is looked up", async () => {
    const { stores, sessions, instance, clock, during } = world;
    const other = instance();
    const token = await sessions.begin(ada);
    clock.advance(bounds.sessionIdleMsMax - 1);
    await sessions.find(token);
    await other.noteActivity(idOf(token));
    clock.advance(1);
    const slow = Promise.withResolvers<void>();
    during.read = () => slow.promise;
    const before = sessions.find(token);
    await stores.sessions.find(idOf(token));
    await other.end(idOf(token));
    const after = sessions.find(token);
    slow.resolve();
    expect(await before).toBeDefined();
    expect(await after).toBeUndefined();
  });

  test("is told by neither while the instance may not admit requests, although it is in memory", async () => {
    const { sessions, hold, during } = world;
    const token = await sessions.begin(ada);
    expect(await sessions.find(token)).toBeDefined();
    const asked = () => [
      sessions.find(token),
      sessions.isLive(idOf(token)),
      sessions.userOf(idOf(token)),
      sessions.noteActivity(idOf(token)),
      sessions.find("x"),
    ];
    hold.holds = false;
    const outcomes = await Promise.allSettled(asked());
    const unavailable = { status: "rejected", reason: expect.objectContaining({ reason: "UNAVAILABLE" }) };
    const nobody = { status: "fulfilled", value: undefined };
    expect(outcomes).toEqual([unavailable, unavailable, unavailable, unavailable, nobody]);
    hold.holds = true;
    const fresh = await sessions.begin(ada);
    during.read = async () => {
      hold.holds = false;
    };
    await expect(sessions.find(fresh)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  });
});

describe("sweeping", () => {
  test("removes the expired sessions from the store, and no others", async () => {
    const { sessions, stores, clock } = world;
    const over = await sessions.begin(ada);
    clock.advance(bounds.sessionIdleMsMax);
    const live = await sessions.begin(ada);
    sessions.start();
    sessions.start();
    await expect.poll(() => stores.sessions.find(idOf(over)), { timeout: 60_000 }).toBeUndefined();
    await sessions.close();
    expect(await stores.sessions.find(idOf(live))).toBeDefined();
  });

  test("that fails is reported and tried again", async () => {
    const { sessions, stores, failures } = world;
    await stores.close();
    sessions.start();
    await expect.poll(() => failures.length, { timeout: 60_000 }).toBeGreaterThan(1);
    await sessions.close();
    expect(failures[0]).toMatchObject({ reason: "UNAVAILABLE" });
  });
});

describe("ending a session", () => {
  test("is seen by the very next request, even if the session was cached", async () => {
    const { sessions } = world;
    const token = await sessions.begin(ada);
    expect(await sessions.find(token)).toBeDefined();
    await sessions.end(idOf(token));
    expect(await sessions.find(token)).toBeUndefined();
    await sessions.end(idOf(token));
    expect(await sessions.find(token)).toBeUndefined();
  });

  test("is seen by a request that read the session before and checks it after", async () => {
    const { sessions, during } = world;
    const token = await sessions.begin(ada);
    during.read = async () => {
      during.read = async () => {};
      await sessions.end(idOf(token));
    };
    expect(await sessions.find(token)).toBeUndefined();
    expect(await sessions.find(token)).toBeUndefined();
  });

  test("is not undone by activity at the same time", async () => {
    const { sessions } = world;
    const token = await sessions.begin(ada);
    await sessions.find(token);
    await Promise.all([sessions.noteActivity(idOf(token)), sessions.end(idOf(token))]);
    expect(await sessions.find(token)).toBeUndefined();
  });

  test("calls each listener once, and not those that were removed or listen to another session", async () => {
    const { sessions } = world;
    const [token, other] = [await sessions.begin(ada), await sessions.begin(ada)];
    const told: string[] = [];
    sessions.onEnded(idOf(token), () => told.push("first"));
    sessions.onEnded(idOf(token), () => told.push("second"));
    sessions.onEnded(idOf(token), () => told.push("left"))();
    sessions.onEnded(idOf(other), () => told.push("other"));
    await sessions.end(idOf(token));
    await sessions.end(idOf(token));
    expect(told).toEqual(["first", "second"]);
  });

  test("removes the user's oldest session if there are too many, cached or not", async () => {
    const { sessions, clock } = world;
    const tokens: string[] = [];
    for (let n = 0; n < bounds.sessionsPerUserMax; n++) {
      clock.advance(1);
      tokens.push(await sessions.begin(ada));
    }
    expect(await sessions.find(tokens[0]!)).toBeDefined();
    const told: string[] = [];
    sessions.onEnded(idOf(tokens[0]!), () => told.push("oldest"));
    clock.advance(1);
    await sessions.begin(ada);
    expect(await sessions.find(tokens[0]!)).toBeUndefined();
    expect(told).toEqual(["oldest"]);
    expect(await sessions.find(tokens[1]!)).toBeDefined();
  });
});
