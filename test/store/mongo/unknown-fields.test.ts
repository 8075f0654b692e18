import type { Db } from "mongodb";
import { expect, test } from "vitest";
import type { z } from "zod";
import { controlDocument } from "#src/store/mongo/control-document.ts";
import {
  collectionsOf,
  storedApp,
  storedAuditEvent,
  storedInstance,
  storedKey,
  storedMember,
  storedQuota,
  storedRun,
  storedServiceToken,
  storedSession,
  storedTeam,
  userDocument,
} from "#src/store/mongo/documents.ts";
import { keyDocumentOf } from "#src/store/mongo/key-documents.ts";
import { serviceTokenDocumentOf } from "#src/store/mongo/service-token-store.ts";
import { keyRecordOf, serviceTokenRecordOf } from "../../harness/store-records.ts";

const timeMs = 1_700_000_000_000;
const user = { issuer: "https://id.example.com", subject: "ada" };

/** Of each collection a document as it is written. */
const documents: Record<string, { schema: z.ZodType; document: Record<string, unknown> }> = {
  keys: {
    schema: storedKey,
    document: { ...keyDocumentOf(keyRecordOf({ id: "k1", teamId: "demo" }), "demo/0") },
  },
  serviceTokens: {
    schema: storedServiceToken,
    document: { ...serviceTokenDocumentOf(serviceTokenRecordOf({ id: "t1" }), 0) },
  },
  teams: {
    schema: storedTeam,
    document: {
      ...{ _id: "demo", displayName: "Demo", plan: "free", createTimeMs: timeMs, version: 1 },
      ...{ state: "active", deleted: false },
    },
  },
  members: {
    schema: storedMember,
    document: { _id: "demo/ada@example.com", teamId: "demo", email: "ada@example.com", createTimeMs: timeMs },
  },
  apps: {
    schema: storedApp,
    document: {
      ...{ _id: "echo", displayName: "Echo", backend: { kind: "echo" }, timeoutMs: 30_000, teamIds: [] },
      ...{ createTimeMs: timeMs, version: 1, deleted: false, streamTimeoutMs: 600_000 },
      ...{ backgroundTimeoutMs: 600_000 },
    },
  },
  sessions: {
    schema: storedSession,
    document: {
      ...{ _id: "hash", ...user, email: "ada@example.com" },
      ...{ createTimeMs: timeMs, lastActiveTimeMs: timeMs, expireTimeMs: timeMs },
    },
  },
  users: { schema: userDocument, document: { _id: "ada@example.com", ...user } },
  runs: {
    schema: storedRun,
    document: {
      ...{ _id: "run_1", keyHash: "run_1", fingerprint: "", listed: true, teamId: "demo", appId: "report" },
      ...{ keyId: "k1", state: "succeeded", owner: "o1", textBytes: 3, error: null },
      ...{ createTimeMs: timeMs, endTimeMs: timeMs, expireTimeMs: timeMs },
    },
  },
  quotas: {
    schema: storedQuota,
    document: {
      ...{ _id: "demo/2026-11", teamId: "demo", startTimeMs: timeMs, claimed: 7, granted: 0 },
      ...{ grantIds: [], holds: { i1: 3 }, version: 1 },
    },
  },
  auditEvents: {
    schema: storedAuditEvent,
    document: {
      ...{ _id: "evt_1", timeMs, actor: "ada@example.com", address: "", channel: "screen" },
      ...{ action: "key.create", teamId: "demo", target: "7k3f0m9x2a4c6e8g1j5n7p9q" },
      ...{ requestId: "", outcome: "done", reason: "", count: 1, detail: "" },
    },
  },
  instances: { schema: storedInstance, document: { _id: "only", incarnation: "i1", beat: 1 } },
  control: {
    schema: controlDocument,
    document: {
      ...{ _id: "control", seq: 0, joined: 1, recent: "" },
      leases: {
        i1: {
          ...{ n: 1, ack: 0, order: 1 },
          facts: {
            ...{
              protocol: 1,
              version: "1.0.0",
              schema: 15,
              address: null,
              alone: false,
              secretVersions: ["0a1b2c3d"],
            },
            ...{ serviceTokenMark: "0123456789abcdef", keyPrefix: "svc" },
          },
        },
      },
    },
  },
};

/** They are read field by field, and a field that is missing is 0 or absent. */
const withoutSchema = ["preview", "usageHours", "usageDays", "meta"];

test.each(Object.entries(documents))(
  "a field of %s that a newer instance has added is ignored",
  (_, { schema, document }) => {
    expect(schema.parse({ ...document, ofTheNextVersion: 1 })).toEqual(schema.parse(document));
  },
);

test("every collection has its document here, or no schema", () => {
  const names = Object.keys(collectionsOf({ collection: () => ({}) } as unknown as Db));
  expect(names.toSorted()).toEqual([...Object.keys(documents), ...withoutSchema].toSorted());
});
