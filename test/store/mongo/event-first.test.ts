import { expect, test } from "vitest";
import type { AuditEvent, PendingEvent } from "#src/audit/audit-store.ts";
import { PendingChange } from "#src/audit/pending-change.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import { whileChanging } from "#src/store/change-under-way.ts";
import { writeEventsFirst } from "#src/store/mongo/event-first.ts";
import type { Stores } from "#src/store/stores.ts";
import { auditEventOf, keyRecordOf } from "../../harness/store-records.ts";

const key = keyRecordOf({ id: "a", teamId: "demo" });
const revoked = { ...key, revokeTimeMs: 1, revokedBy: "ada@example.com" };
const order = { teamId: "demo", keyId: "a", revokeTimeMs: 2, revokedBy: "bob@example.com" };

/** Ports that note what they are asked to do. A look at the store finds the key `stored`. */
function startPorts({ stored = key, auditFails = false } = {}) {
  const done: string[] = [];
  const method = (name: string, answer?: unknown) => async () => {
    done.push(name);
    return answer;
  };
  const ports = {
    keys: {
      ...{ insert: method("insert"), revoke: method("revoke", revoked), recordUses: method("use") },
      find: async () => stored,
    },
    ...{ serviceTokens: {}, teams: {}, members: {}, preview: {}, apps: {}, sessions: {}, users: {} },
  } as unknown as Stores;
  const audit = {
    async write(events: readonly AuditEvent[]) {
      await new Promise(setImmediate);
      if (auditFails) throw unavailable();
      done.push(...events.map(({ outcome }) => `event ${outcome}`));
    },
  };
  const { keys } = writeEventsFirst(ports, { audit, fresh: ports });
  const change = new PendingChange(auditEventOf({ id: "e" }), { hasSteps: false });
  return {
    done,
    keys,
    change,
    during: <T>(work: () => Promise<T>) => whileChanging(change as PendingEvent, work),
  };
}

test("the event of a change is written, as unknown, before the change is made", async () => {
  const { done, keys, change, during } = startPorts();
  expect(await during(() => keys.revoke(order))).toEqual(revoked);
  expect(done).toEqual(["event unknown", "revoke"]);
  expect(change.writtenAs).toBe("unknown");
});

test("a change whose event can't be written is not made", async () => {
  const { done, keys, during } = startPorts({ auditFails: true });
  await expect(during(() => keys.revoke(order))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  await expect(during(() => keys.insert(key, { activeMax: 1 }))).rejects.toMatchObject({
    reason: "UNAVAILABLE",
  });
  expect(done).toEqual([]);
});

test("several writes of one change share its event, also where they begin at once", async () => {
  const { done, keys, during } = startPorts();
  await during(async () => {
    await Promise.all([keys.revoke(order), keys.insert(key, { activeMax: 1 })]);
    await keys.revoke(order);
  });
  expect(done[0]).toBe("event unknown");
  expect(done.slice(1).sort()).toEqual(["insert", "revoke", "revoke"]);
});

test("a repeat changes nothing: it has no event and no write, and gets what is so already", async () => {
  const { done, keys, during } = startPorts({ stored: revoked });
  expect(await during(() => keys.revoke(order))).toEqual(revoked);
  expect(await during(() => keys.revoke({ ...order, teamId: "acme" }))).toBeUndefined();
  expect(done).toEqual([]);
});

test("bookkeeping, and what belongs to no change, has no event", async () => {
  const { done, keys, during } = startPorts();
  await during(() => keys.recordUses(new Map()));
  await keys.revoke(order);
  expect(done).toEqual(["use", "revoke"]);
});
