import { describe, expect, test } from "vitest";
import type { SessionRecord } from "#src/sign-in/sign-in-store.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function sessionStoreContract(name: string, open: OpenStores): void {
  describe(`SessionStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const sessions = () => stores().sessions;
    const far = 9_000_000_000_000;
    const sessionOf = (idHash: string, facts: Partial<SessionRecord> = {}): SessionRecord => ({
      idHash,
      issuer: "https://id.example",
      subject: `${idHash}-subject`,
      email: "ada@example.com",
      createTimeMs: 1_000,
      lastActiveTimeMs: far,
      expireTimeMs: far,
      ...facts,
    });
    const limits = { perUserMax: 3 };

    test("a session that was added is found by its hash alone, and is gone once deleted", async () => {
      const id = newPrefix();
      const session = sessionOf(id);
      expect(await sessions().insert(session, limits)).toEqual([]);
      expect(await sessions().find(id)).toEqual(session);
      expect(await sessions().find(`${id}x`)).toBeUndefined();
      expect(await sessions().delete(id)).toBe(true);
      expect(await sessions().delete(id)).toBe(false);
      expect(await sessions().find(id)).toBeUndefined();
    });

    test("touch raises the activity and never sets it back, and ignores an unknown hash", async () => {
      const id = newPrefix();
      await sessions().insert(sessionOf(id, { lastActiveTimeMs: far - 100 }), limits);
      await sessions().touch(id, far - 50);
      await sessions().touch(id, far - 200);
      expect(await sessions().find(id)).toMatchObject({ lastActiveTimeMs: far - 50 });
      await sessions().touch(`${id}x`, far);
      expect(await sessions().find(`${id}x`)).toBeUndefined();
    });

    test("past the user's bound, insert removes the sessions created first and returns their hashes", async () => {
      const prefix = newPrefix();
      const one = (n: number, createTimeMs: number) =>
        sessionOf(`${prefix}${n}`, { subject: prefix, createTimeMs });
      const same = { subject: prefix, createTimeMs: 1 };
      const stranger = sessionOf(`${prefix}other`, { ...same, issuer: "https://other.example" });
      await sessions().insert(stranger, limits);
      for (const n of [2, 1, 3]) expect(await sessions().insert(one(n, n), limits)).toEqual([]);
      expect(await sessions().insert(one(4, 4), limits)).toEqual([`${prefix}1`]);
      // Also where the clock was set back: the new session stays, because the person is about to
      // use it.
      expect(await sessions().insert(one(5, 0), limits)).toEqual([`${prefix}2`]);
      const left = await Promise.all([1, 2, 3, 4, 5].map((n) => sessions().find(prefix + n)));
      expect(left.map((found) => found !== undefined)).toEqual([false, false, true, true, true]);
      expect(await sessions().find(stranger.idHash)).toEqual(stranger);
    });

    test("however many sign in at once, a user never keeps more than the bound", async () => {
      const prefix = newPrefix();
      const ids = Array.from({ length: 8 }, (_, n) => `${prefix}${n}`);
      await Promise.all(ids.map((id) => sessions().insert(sessionOf(id, { subject: prefix }), limits)));
      const left = (await Promise.all(ids.map((id) => sessions().find(id)))).filter(Boolean);
      expect(left.length).toBeLessThanOrEqual(limits.perUserMax);
    });

    test("sessions that ended or were idle for too long are removed, a batch at a time, and no others", async () => {
      const prefix = newPrefix();
      const cases = {
        ended: { expireTimeMs: 50_000 },
        idle: { lastActiveTimeMs: 20_000 },
        both: { expireTimeMs: 49_000, lastActiveTimeMs: 19_000 },
        live: { expireTimeMs: 50_001, lastActiveTimeMs: 20_001 },
      };
      for (const [id, facts] of Object.entries(cases))
        await sessions().insert(sessionOf(prefix + id, facts), limits);
      const query = { nowMs: 50_000, idleSinceMs: 20_000 };
      expect(await sessions().deleteExpired({ ...query, limit: 0 })).toBe(0);
      expect(await sessions().deleteExpired({ ...query, limit: 2 })).toBe(2);
      expect(await sessions().deleteExpired({ ...query, limit: 2 })).toBe(1);
      expect(await sessions().deleteExpired({ ...query, limit: 2 })).toBe(0);
      const left = await Promise.all(Object.keys(cases).map((id) => sessions().find(prefix + id)));
      expect(left.map((found) => found !== undefined)).toEqual([false, false, false, true]);
    });
  });
}
