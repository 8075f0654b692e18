import { describe, expect, test } from "vitest";
import type { AuditEvent, PendingEvent } from "#src/audit/audit-store.ts";
import { whileChanging } from "#src/audit/pending-change.ts";
import { auditEventOf, keyRecordOf, serviceTokenRecordOf, teamRecordOf } from "../harness/store-records.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function auditStoreContract(name: string, open: OpenStores): void {
  describe(`AuditStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const audit = () => stores().audit;
    const idsOf = (events: readonly AuditEvent[]) => events.map(({ id }) => id);

    /** A change whose event has this id, as the audit log makes one. */
    function pendingOf(event: AuditEvent) {
      const outcomes: AuditEvent["outcome"][] = [];
      const pending: PendingEvent & { isOver: boolean } = {
        isOver: false,
        get isDue() {
          return outcomes.length === 0 && !this.isOver;
        },
        record: () => event,
        written: (outcome) => void outcomes.push(outcome),
      };
      return { pending, outcomes };
    }
    const listOf = (teamId: string) => audit().list({ teamId, limit: 100 });

    test("events are listed newest first, by time and then by id, and by every filter", async () => {
      const teamId = newPrefix();
      const other = newPrefix();
      const event = (id: string, facts: Partial<AuditEvent>) =>
        auditEventOf({ id: teamId + id, teamId, ...facts });
      const events = [
        event("a", { timeMs: 1_000, actor: `${teamId}ada`, target: `${teamId}key` }),
        event("c", { timeMs: 2_000, action: `${teamId}revoke` }),
        event("b", { timeMs: 2_000, actor: `${teamId}ada`, outcome: "refused", reason: "TEAM_NOT_FOUND" }),
        event("d", { timeMs: 3_000, teamId: other, actor: `${teamId}ada` }),
      ];
      await audit().write(events);
      const [a, c, b, d] = events;
      expect(await listOf(teamId)).toEqual([c, b, a]);
      expect(await audit().list({ teamId, limit: 2 })).toEqual([c, b]);
      expect(await audit().list({ teamId, limit: 0 })).toEqual([]);
      expect(await audit().list({ actor: `${teamId}ada`, limit: 9 })).toEqual([d, b, a]);
      expect(await audit().list({ action: `${teamId}revoke`, limit: 9 })).toEqual([c]);
      expect(await audit().list({ teamId, actor: `${teamId}ada`, limit: 9 })).toEqual([b, a]);
      expect(await audit().list({ teamId, fromMs: 2_000, limit: 9 })).toEqual([c, b]);
      const targets = ["another", `${teamId}key`];
      expect(await audit().list({ teamId, targets, limit: 9 })).toEqual([a]);
      expect(await audit().list({ targets, limit: 9 })).toEqual([a]);
      expect(await audit().list({ teamId, targets: ["another"], limit: 9 })).toEqual([]);
      const { actor, action } = a!;
      expect(await audit().list({ teamId, targets, actor, action, limit: 9 })).toEqual([a]);
      expect(await audit().list({ teamId, targets, actor: "eve", action, limit: 9 })).toEqual([]);
      expect(await audit().list({ teamId, beforeMs: 2_000, limit: 9 })).toEqual([a]);
      expect(await audit().list({ teamId, after: c!, limit: 9 })).toEqual([b, a]);
      expect(await audit().list({ teamId, after: b!, fromMs: 1_001, limit: 9 })).toEqual([]);
      expect(idsOf(await audit().list({ limit: 1 }))).toHaveLength(1);
    });

    test("a second write of an id changes what became of it, and neither its time nor its actor", async () => {
      const teamId = newPrefix();
      const begun = auditEventOf({ id: `${teamId}e`, teamId, outcome: "unknown", target: "" });
      await audit().write([begun]);
      const ended = {
        outcome: "refused",
        reason: "KEY_NOT_FOUND",
        target: "k",
        detail: "plan=pro",
        count: 3,
      } as const;
      await audit().write([{ ...begun, ...ended, timeMs: 9, actor: "mallory", action: "nothing" }]);
      expect(await listOf(teamId)).toEqual([{ ...begun, ...ended }]);
    });

    test("insert writes an event once, and leaves the one that is there as it is", async () => {
      const teamId = newPrefix();
      const event = auditEventOf({ id: `expired:${teamId}`, teamId });
      const repeats = [10, 20, 30].map((timeMs) => audit().insert({ ...event, timeMs }));
      expect((await Promise.all(repeats)).filter(Boolean)).toHaveLength(1);
      const [kept] = await listOf(teamId);
      expect(await audit().insert({ ...event, timeMs: 40, outcome: "refused" })).toBe(false);
      expect(await listOf(teamId)).toEqual([kept]);
    });

    test("the first change of the work has its event with it, and the later ones write no other", async () => {
      const teamId = newPrefix();
      const event = auditEventOf({ id: `${teamId}e`, teamId });
      const { pending, outcomes } = pendingOf(event);
      const team = await whileChanging(pending, async () => {
        await stores().teams.find(teamId);
        expect(outcomes).toEqual([]);
        const made = await stores().teams.insert(teamRecordOf({ id: teamId }));
        expect(outcomes).toHaveLength(1);
        await stores().members.add({ teamId, email: "ada@example.com", createTimeMs: 1 });
        return made;
      });
      expect(team).toMatchObject({ id: teamId });
      const [written, ...more] = await listOf(teamId);
      expect(more).toEqual([]);
      // With the change, or before it: then nobody knows yet what becomes of it.
      expect(["done", "unknown"]).toContain(written?.outcome);
      expect(written).toEqual({ ...event, outcome: written?.outcome });
      expect(outcomes).toEqual([written?.outcome]);
    });

    test("each change of a service token has its event with it or before it, and a use has none", async () => {
      const prefix = newPrefix();
      const { serviceTokens } = stores();
      const tokenId = `${prefix}t`;
      const token = serviceTokenRecordOf({ id: tokenId, name: tokenId, role: "manage", teamIds: [prefix] });
      const changes = [
        () => serviceTokens.insert(token, { acceptedMax: 1_000 }),
        () => serviceTokens.leaveTeam(prefix),
        () => serviceTokens.revoke({ tokenId, revokeTimeMs: 1, revokedBy: "ada@example.com" }),
        () => serviceTokens.delete(tokenId),
      ];
      for (const [n, change] of changes.entries()) {
        const { pending, outcomes } = pendingOf(auditEventOf({ id: `${prefix}${n}`, teamId: prefix }));
        await whileChanging(pending, async () => {
          await serviceTokens.recordUses(new Map([[tokenId, n + 1]]));
          expect(outcomes).toEqual([]);
          await change();
        });
        expect(outcomes).toHaveLength(1);
      }
      expect(await listOf(prefix)).toHaveLength(changes.length);
    });

    /** Calls that ask for what is so already, by name. Each is made ready by the first function. */
    const repeats: readonly [string, (name: string) => Promise<() => Promise<unknown>>][] = [
      [
        "a revoked key is revoked",
        async (id) => {
          await stores().keys.insert(keyRecordOf({ id, teamId: id }), { activeMax: 5 });
          return () => stores().keys.revoke({ teamId: id, keyId: id, ...revocation });
        },
      ],
      [
        "a revoked service token is revoked",
        async (id) => {
          await stores().serviceTokens.insert(serviceTokenRecordOf({ id, name: id }), { acceptedMax: 1_000 });
          return () => stores().serviceTokens.revoke({ tokenId: id, ...revocation });
        },
      ],
      [
        "a member is added",
        async (id) => () => stores().members.add({ teamId: id, email: `${id}@example.com`, createTimeMs: 1 }),
      ],
      [
        "a member who was removed is removed",
        async (id) => {
          await stores().members.add({ teamId: id, email: `${id}@example.com`, createTimeMs: 1 });
          return () => stores().members.remove(id, `${id}@example.com`);
        },
      ],
      ["preview access is given", async (id) => () => stores().preview.set(`${id}@example.com`, true)],
      [
        "preview access is taken",
        async (id) => {
          await stores().preview.set(`${id}@example.com`, true);
          return () => stores().preview.set(`${id}@example.com`, false);
        },
      ],
      [
        "an e-mail is bound",
        async (id) => () => stores().users.bind({ email: id, issuer: "https://id.example", subject: id }),
      ],
      [
        "an e-mail is freed",
        async (id) => {
          await stores().users.bind({ email: id, issuer: "https://id.example", subject: id });
          return () => stores().users.release(id);
        },
      ],
      [
        "a session is ended",
        async (id) => {
          const times = { createTimeMs: 1, lastActiveTimeMs: 1, expireTimeMs: 9 };
          const session = { idHash: id, issuer: "https://id.example", subject: id, email: id, ...times };
          await stores().sessions.insert(session, { perUserMax: 5 });
          return () => stores().sessions.delete(id);
        },
      ],
    ];
    const revocation = { revokeTimeMs: 5, revokedBy: "ada@example.com" };

    test.each(repeats)(
      "where %s a second time, nothing changes, and no event is written",
      async (_, ready) => {
        const prefix = newPrefix();
        const change = await ready(prefix);
        const during = async (id: string) => {
          const { pending, outcomes } = pendingOf(auditEventOf({ id: prefix + id, teamId: prefix }));
          const result = await whileChanging(pending, change);
          return { result, outcomes };
        };
        const first = await during("first");
        expect(first.outcomes).toHaveLength(1);
        const second = await during("second");
        expect(second.outcomes).toEqual([]);
        // A removal says whether there was something to remove; all others answer as before.
        expect(second.result).toEqual(first.result === true ? expect.any(Boolean) : first.result);
        expect(idsOf(await listOf(prefix))).toEqual([`${prefix}first`]);
      },
    );

    test("work that reads alone, that touches a session or that is over writes no event", async () => {
      const teamId = newPrefix();
      const { pending, outcomes } = pendingOf(auditEventOf({ id: `${teamId}e`, teamId }));
      await whileChanging(pending, async () => {
        await stores().keys.find(teamId);
        await stores().sessions.touch(teamId, 1);
        await stores().keys.recordUses(new Map([[teamId, 1]]));
        pending.isOver = true;
        await stores().preview.set(`${teamId}@example.com`, true);
      });
      expect(outcomes).toEqual([]);
      expect(await listOf(teamId)).toEqual([]);
    });

    test("where the event can't be written, the change is not made", async () => {
      const teamId = newPrefix();
      const misfit = { ...auditEventOf({ id: `${teamId}e`, teamId }), count: 0 };
      const { pending, outcomes } = pendingOf(misfit);
      const key = keyRecordOf({ id: `${teamId}key`, teamId });
      const changing = whileChanging(pending, () => stores().keys.insert(key, { activeMax: 5 }));
      await expect(changing).rejects.toMatchObject({ reason: "INTERNAL" });
      expect(await stores().keys.find(key.id)).toBeUndefined();
      expect(outcomes).toEqual([]);
    });

    test("changes at the same time each have their own event", async () => {
      const teamId = newPrefix();
      const ids = Array.from({ length: 8 }, (_, n) => `${teamId}${n}`);
      const changing = ids.map((id) =>
        whileChanging(pendingOf(auditEventOf({ id, teamId, target: id })).pending, () =>
          stores().keys.insert(keyRecordOf({ id, teamId }), { activeMax: 50 }),
        ),
      );
      await Promise.all(changing);
      const events = await listOf(teamId);
      expect(events.map(({ target }) => target).sort()).toEqual(ids);
    });

    test("old events are removed, the oldest first and a batch at a time, and no others", async () => {
      const teamId = newPrefix();
      const events = [1, 2, 3, 4].map((n) => auditEventOf({ id: `${teamId}${n}`, teamId, timeMs: n }));
      await audit().write(events);
      expect(await audit().deleteBefore({ beforeMs: 4, limit: 0 })).toBe(0);
      expect(await audit().deleteBefore({ beforeMs: 4, limit: 2 })).toBe(2);
      expect(idsOf(await listOf(teamId))).toEqual([`${teamId}4`, `${teamId}3`]);
      expect(await audit().deleteBefore({ beforeMs: 4, limit: 2 })).toBe(1);
      expect(await audit().deleteBefore({ beforeMs: 4, limit: 2 })).toBe(0);
      expect(idsOf(await listOf(teamId))).toEqual([`${teamId}4`]);
    });
  });
}
