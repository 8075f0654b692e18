import { z } from "zod";
import {
  appRecord,
  auditRecord,
  keyRecord,
  memberRecord,
  runRecord,
  serviceTokenRecord,
  teamRecord,
  usageDayRecord,
  usageHourRecord,
  userRecord,
  windowPageRecord,
} from "./records.ts";

/** A deleted team or app keeps its version, which goes on where its id is used again. */
const tombstone = { deleted: z.boolean() };

/**
 * What is copied from one store to another, by the name of its collection. Sessions are not: people
 * sign in again.
 */
export const copiedShapes = {
  teams: teamRecord.extend(tombstone),
  members: memberRecord,
  preview: z.strictObject({ email: z.string().min(1) }),
  users: userRecord,
  apps: appRecord.extend(tombstone),
  keys: keyRecord,
  serviceTokens: serviceTokenRecord,
  runRecords: runRecord.extend({ text: z.string().nullable() }),
  windowPages: windowPageRecord,
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
