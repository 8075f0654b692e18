import { describe, expect, test } from "vitest";
import type { AuditEvent } from "#src/audit/audit-store.ts";
import { PendingChange, whileChanging } from "#src/audit/pending-change.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import { createAppStore } from "#src/store/mongo/app-store.ts";
import type { Collections } from "#src/store/mongo/documents.ts";
import { keyDocumentOf } from "#src/store/mongo/key-documents.ts";
import { createKeyStore } from "#src/store/mongo/key-store.ts";
import { createQuotaStore } from "#src/store/mongo/quota-store.ts";
import { createServiceTokenStore } from "#src/store/mongo/service-token-store.ts";
import { createSessionStore, createUserStore } from "#src/store/mongo/session-store.ts";
import type { StoreCall } from "#src/store/mongo/store-call.ts";
import { createMemberStore, createPreviewStore, createTeamStore } from "#src/store/mongo/team-store.ts";
import { createWithEvent } from "#src/store/mongo/with-event.ts";
import { changingMethodsContract } from "../../contract/changing-methods.ts";
import { auditEventOf, keyRecordOf } from "../../harness/store-records.ts";

const key = keyRecordOf({ id: "a", teamId: "demo" });
const revoked = { ...key, revokeTimeMs: 1, revokedBy: "ada@example.com" };
const order = { teamId: "demo", keyId: "a", revokeTimeMs: 2, revokedBy: "bob@example.com" };

const call: StoreCall = (work) => work();

/** Keys that note what MongoDB is asked to do. A look at the store finds the key `stored`. */
function startKeys({ stored = key, auditFails = false } = {}) {
  const done: string[] = [];
  const method = (name: string, answer?: unknown) => async () => {
    done.push(name);
    return answer;
  };
  const keys = {
    ...{ findOneAndUpdate: method("revoke", keyDocumentOf(revoked, "s")), deleteOne: method("delete") },
    ...{ bulkWrite: method("use"), findOne: async () => keyDocumentOf(stored, "s") },
  };
  const audit = {
    async write(events: readonly AuditEvent[]) {
      await new Promise(setImmediate);
      if (auditFails) throw unavailable();
      done.push(...events.map(({ outcome }) => `event ${outcome}`));
    },
  };
  const change = new PendingChange(auditEventOf({ id: "e" }), { hasSteps: false, subject: {} });
  return {
    done,
    keys: createKeyStore({ keys } as unknown as Collections, call, createWithEvent(audit, {})),
    change,
    during: <T>(work: () => Promise<T>) => whileChanging(change, work),
  };
}

test("the event of a change is written, as unknown, before the change is made", async () => {
  const { done, keys, change, during } = startKeys();
  expect(await during(() => keys.revoke(order))).toEqual(revoked);
  expect(done).toEqual(["event unknown", "revoke"]);
  expect(change.writtenAs).toBe("unknown");
});

test("a change whose event can't be written is not made", async () => {
  const { done, keys, during } = startKeys({ auditFails: true });
  await expect(during(() => keys.revoke(order))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  await expect(during(() => keys.delete("a"))).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(done).toEqual([]);
});

test("several writes of one change share its event, also where they begin at once", async () => {
  const { done, keys, during } = startKeys();
  await during(async () => {
    await Promise.all([keys.revoke(order), keys.delete("a")]);
    await keys.revoke(order);
  });
  expect(done[0]).toBe("event unknown");
  expect(done.slice(1).sort()).toEqual(["delete", "revoke", "revoke"]);
});

test("a repeat changes nothing: it has no event and no write, and gets what is so already", async () => {
  const { done, keys, during } = startKeys({ stored: revoked });
  expect(await during(() => keys.revoke(order))).toEqual(revoked);
  expect(await during(() => keys.revoke({ ...order, teamId: "acme" }))).toBeUndefined();
  expect(done).toEqual([]);
});

test("bookkeeping, and what belongs to no change, has no event", async () => {
  const { done, keys, during } = startKeys();
  await during(() => keys.recordUses(new Map([["a", 1]])));
  await keys.revoke(order);
  expect(done).toEqual(["use", "revoke"]);
});

// As in the suites of both stores, but of the methods alone: no server is needed to see it.
describe("the events of changes on MongoDB, without a server", () => {
  const refusing = new Proxy({}, { get: () => () => expect.fail("MongoDB was asked before the event") });
  const collections = new Proxy({}, { get: () => refusing }) as Collections;
  const withEvent = createWithEvent({ write: () => expect.fail("the event was written") }, {});
  const ports = {
    keys: createKeyStore(collections, call, withEvent),
    teams: createTeamStore(collections, call, withEvent),
    members: createMemberStore(collections, call, withEvent),
    preview: createPreviewStore(collections, call, withEvent),
    apps: createAppStore(collections, call, withEvent),
    sessions: createSessionStore(collections, call, withEvent),
    users: createUserStore(collections, call, withEvent),
    serviceTokens: createServiceTokenStore(collections, call, withEvent),
    quotas: createQuotaStore(collections, call, withEvent),
  };
  changingMethodsContract(() => ports);
});
