import { z } from "zod";
import { appRecord } from "../apps/app-store.ts";
import { auditRecord } from "../audit/audit-store.ts";
import { filled } from "../base/record-fields.ts";
import { keyRecord } from "../keys/key-store.ts";
import { quotaRecord } from "../quota/quota-store.ts";
import { fail } from "../refusal/refusal.ts";
import { type RecordTotals, runRecord } from "../run/kept/run-store.ts";
import { serviceTokenRecord } from "../service-tokens/service-token-store.ts";
import { userRecord } from "../sign-in/sign-in-store.ts";
import { memberRecord, teamRecord } from "../teams/team-store.ts";
import { usageRecord } from "../usage/usage-store.ts";

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

/** A deleted team or app keeps its version, which goes on where its id is used again. */
const tombstone = { deleted: z.boolean() };

/**
 * What is copied from one store to another, by the name of its collection. Sessions are not: people
 * sign in again.
 */
export const copiedShapes = {
  teams: teamRecord.extend(tombstone),
  members: memberRecord,
  preview: z.strictObject({ email: filled }),
  users: userRecord,
  apps: appRecord.extend(tombstone),
  keys: keyRecord,
  serviceTokens: serviceTokenRecord,
  runs: runRecord.extend({ text: z.string().nullable() }),
  usageHours: usageRecord,
  usageDays: usageRecord,
  quotas: quotaRecord,
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
