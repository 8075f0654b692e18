import { z } from "zod";
import type { AppRecord, BackendRecord } from "../apps/app-store.ts";
import type { AuditEvent } from "../audit/audit-store.ts";
import { serviceRoles } from "../auth/require-service.ts";
import type { KeyRecord } from "../keys/key-store.ts";
import { fail } from "../refusal/refusal.ts";
import type { BackgroundRecord } from "../run/background/background-store.ts";
import type { RecordTotals, RunRecord } from "../run/idempotency/run-record-store.ts";
import type { ServiceTokenRecord } from "../service-tokens/service-token-store.ts";
import { planNames } from "../settings/config.ts";
import type { SessionRecord, UserRecord } from "../sign-in/sign-in-store.ts";
import type { MemberRecord, TeamRecord } from "../teams/team-store.ts";
import type { UsageDay, UsageHour } from "../usage/usage-store.ts";

/** The private cause of a record that does not fit. It names fields, never their values. */
export class RecordMisfit extends Error {
  override readonly name = "RecordMisfit";
}

/**
 * The value as a record of its port. Throws the refusal INTERNAL where its shape is wrong; the
 * private cause names the place and the wrong fields, never their values.
 */
export function checkRecord<T>(schema: z.ZodType<T>, value: unknown, place: string): T {
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  const paths = outcome.error.issues.map((issue) => issue.path.join(".") || "its fields");
  throw fail("INTERNAL", {
    cause: new RecordMisfit(`${place} does not fit the store's schema at ${paths.join(", ")}`),
  });
}

const timeMs = z.int().nonnegative();
const version = z.int().positive();

export const keyShape = {
  teamId: z.string().min(1),
  label: z.string(),
  redactedValue: z.string(),
  digest: z.string().min(1),
  secretVersion: z.string().min(1),
  requestId: z.string().min(1).nullable(),
  createTimeMs: timeMs,
  createdBy: z.string(),
  lastUseTimeMs: timeMs.nullable(),
  revokeTimeMs: timeMs.nullable(),
  revokedBy: z.string().nullable(),
  expireTimeMs: timeMs.nullable(),
  expiredTimeMs: timeMs.nullable(),
  replacesKeyId: z.string().min(1).nullable(),
  replacedByKeyId: z.string().min(1).nullable(),
  firstKeyId: z.string().min(1).nullable(),
  pendingSinceMs: timeMs.nullable(),
  appIds: z.array(z.string().min(1)),
  requestsPerMinute: z.int().positive().nullable(),
  version,
};

export const serviceTokenShape = {
  name: z.string().min(1),
  role: z.enum(serviceRoles),
  teamIds: z.array(z.string().min(1)),
  redactedValue: z.string(),
  digest: z.string().min(1),
  secretVersion: z.string().min(1),
  createTimeMs: timeMs,
  createdBy: z.string(),
  lastUseTimeMs: timeMs.nullable(),
  revokeTimeMs: timeMs.nullable(),
  revokedBy: z.string().nullable(),
  version,
};

export const teamShape = {
  displayName: z.string(),
  plan: z.enum(planNames),
  createTimeMs: timeMs,
  state: z.enum(["active", "ending"]),
  version,
};

export const memberShape = { teamId: z.string().min(1), email: z.string().min(1), createTimeMs: timeMs };

// A newer instance of a fleet may have added a field, which is ignored.
const backend: z.ZodType<BackendRecord> = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("echo") }),
  z.object({
    kind: z.literal("http"),
    url: z.string().min(1),
    headers: z.array(z.object({ name: z.string().min(1), value: z.string() })),
  }),
  z.object({ kind: z.literal("grpc"), target: z.string().min(1), tls: z.boolean() }),
  z.object({ kind: z.literal("guard") }),
]);

export const appShape = {
  displayName: z.string(),
  backend,
  timeoutMs: z.int().positive(),
  streamTimeoutMs: z.int().positive(),
  backgroundTimeoutMs: z.int().positive(),
  teamIds: z.array(z.string().min(1)),
  createTimeMs: timeMs,
  version,
};

export const sessionShape = {
  issuer: z.string().min(1),
  subject: z.string().min(1),
  email: z.string().min(1),
  createTimeMs: timeMs,
  lastActiveTimeMs: timeMs,
  expireTimeMs: timeMs,
};

export const runRecordShape = {
  teamId: z.string().min(1),
  fingerprint: z.string().min(1),
  runId: z.string().min(1),
  state: z.enum(["running", "background", "done", "app_failed", "app_timeout"]),
  textBytes: z.int().nonnegative(),
  createTimeMs: timeMs,
  runUntilMs: timeMs,
  expireTimeMs: timeMs,
};

export const backgroundShape = {
  teamId: z.string().min(1),
  appId: z.string().min(1),
  keyId: z.string().min(1),
  state: z.enum(["running", "succeeded", "failed", "cancelled"]),
  owner: z.string().min(1),
  textBytes: z.int().nonnegative().nullable(),
  error: z.object({ code: z.string().min(1), message: z.string(), status: z.int().positive() }).nullable(),
  createTimeMs: timeMs,
  endTimeMs: timeMs.nullable(),
  expireTimeMs: timeMs.nullable(),
};

const usageCounts = {
  acceptedCount: z.int().nonnegative(),
  limitedCount: z.int().nonnegative(),
  failedCount: z.int().nonnegative(),
  appMs: z.int().nonnegative(),
};
const usageShape = { teamId: z.string().min(1), keyId: z.string().min(1), startTimeMs: timeMs };
export const auditShape = {
  timeMs,
  actor: z.string().min(1),
  address: z.string(),
  channel: z.enum(["none", "screen", "command_line", "rpc"]),
  action: z.string().min(1),
  teamId: z.string(),
  target: z.string(),
  detail: z.string(),
  requestId: z.string(),
  outcome: z.enum(["done", "refused", "unknown"]),
  reason: z.string(),
  count: z.int().positive(),
};

export const userShape = { issuer: z.string().min(1), subject: z.string().min(1) };

const id = z.string().min(1);

// A field that is added to a record's type does not compile until its shape has it. Both stores are
// made of the shapes.
export const keyRecord = z.strictObject({ id, ...keyShape }) satisfies z.ZodType<KeyRecord>;
export const serviceTokenRecord = z.strictObject({
  id,
  ...serviceTokenShape,
}) satisfies z.ZodType<ServiceTokenRecord>;
export const teamRecord = z.strictObject({ id, ...teamShape }) satisfies z.ZodType<TeamRecord>;
export const memberRecord = z.strictObject(memberShape) satisfies z.ZodType<MemberRecord>;
export const appRecord = z.strictObject({ id, ...appShape }) satisfies z.ZodType<AppRecord>;
export const sessionRecord = z.strictObject({
  idHash: id,
  ...sessionShape,
}) satisfies z.ZodType<SessionRecord>;
export const userRecord = z.strictObject({ email: id, ...userShape }) satisfies z.ZodType<UserRecord>;
export const runRecord = z.strictObject({ id, ...runRecordShape }) satisfies z.ZodType<RunRecord>;
export const backgroundRecord = z.strictObject({
  id,
  ...backgroundShape,
}) satisfies z.ZodType<BackgroundRecord>;
export const usageHourRecord = z.strictObject({
  ...usageShape,
  incarnation: z.string().min(1),
  ...usageCounts,
}) satisfies z.ZodType<UsageHour>;
export const usageDayRecord = z.strictObject({
  ...usageShape,
  ...usageCounts,
}) satisfies z.ZodType<UsageDay>;
export const auditRecord = z.strictObject({ id, ...auditShape }) satisfies z.ZodType<AuditEvent>;

/** A deleted team or app keeps its version, which goes on where its id is used again. */
const tombstone = { deleted: z.boolean() };

/**
 * What is copied from one store to another, by the name of its collection. Sessions are not: people
 * sign in again.
 */
export const copiedShapes = {
  teams: teamRecord.extend(tombstone),
  members: memberRecord,
  preview: z.strictObject({ email: id }),
  users: userRecord,
  apps: appRecord.extend(tombstone),
  keys: keyRecord,
  serviceTokens: serviceTokenRecord,
  runRecords: runRecord.extend({ text: z.string().nullable() }),
  backgroundRuns: backgroundRecord.extend({ text: z.string().nullable() }),
  usageHours: usageHourRecord,
  usageDays: usageDayRecord,
  auditEvents: auditRecord,
};

export type CopiedName = keyof typeof copiedShapes;

export const copiedNames = Object.keys(copiedShapes) as readonly CopiedName[];

/** Some records of one kind. Each fits its shape. */
export interface CopiedBatch {
  readonly name: CopiedName;
  readonly records: readonly Readonly<Record<string, unknown>>[];
}

/** The fields of a change that have a value: a field that is present but undefined is left out. */
export function given<T extends object>(change: T): Partial<T> {
  // The cast is safe: a subset of the fields of T is a Partial of it.
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as Partial<T>;
}

interface Removed {
  readonly teamId: string;
  readonly textBytes: number;
}

/** What all of these are together. */
export function sumOf(removed: readonly Pick<Removed, "textBytes">[]): RecordTotals {
  return { records: removed.length, textBytes: removed.reduce((sum, { textBytes }) => sum + textBytes, 0) };
}

/** What they are together, for each team. */
export function sumByTeam(removed: readonly Removed[]): ReadonlyMap<string, RecordTotals> {
  const byTeam = Map.groupBy(removed, ({ teamId }) => teamId);
  return new Map([...byTeam].map(([teamId, ofTeam]) => [teamId, sumOf(ofTeam)]));
}
