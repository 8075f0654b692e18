/** The shape of the control document, and of the last changes in it. */

import { z } from "zod";
import { bounds } from "../../bounds.ts";
import type {
  BroughtPlanLimits,
  ControlChange,
  HandedShare,
  LeaseRecord,
  NumberedChange,
} from "../../fleet/control-store.ts";
import { type QuotaLimit, quotaPeriods } from "../../settings/config.ts";
import { checkRecord } from "../records.ts";

const count = z.int().nonnegative();

// While a fleet is upgraded, instances of two versions write this document. So unknown fields are
// ignored.
const facts = z.object({
  protocol: count,
  version: z.string(),
  schema: count,
  secretVersions: z.array(z.string()),
  serviceTokenMark: z.string(),
  keyPrefix: z.string(),
  address: z.string().nullable(),
  alone: z.boolean(),
}) satisfies z.ZodType<LeaseRecord["facts"]>;

const limits = z.object({
  mode: z.enum(["shared", "share", "refuse"]),
  redisMark: z.string().nullable(),
  share: z.string().nullable(),
}) satisfies z.ZodType<LeaseRecord["limits"]>;

const share = z.object({ slot: count, place: count, of: count }) satisfies z.ZodType<HandedShare>;

const lease = z.object({
  n: count,
  ack: count,
  order: count,
  facts,
  limits: limits.optional(),
  share: share.optional(),
}) satisfies z.ZodType<Omit<LeaseRecord, "id">>;

const quotaLimit = z.object({
  requests: count,
  period: z.enum(quotaPeriods),
}) satisfies z.ZodType<QuotaLimit>;

const planLimits = z.object({
  order: count,
  limits: z.record(z.string(), count),
  quotas: z.record(z.string(), quotaLimit),
}) satisfies z.ZodType<BroughtPlanLimits>;

/** The one document by which the instances of a fleet agree. */
export const controlDocument = z.object({
  _id: z.string(),
  /** The number of the last change. */
  seq: count.default(0),
  /** How many instances ever joined. */
  joined: count.default(0),
  /** The last changes as one text: as an array it costs the server far more. */
  recent: z.string().default(""),
  /** By the instance's id. */
  leases: z.record(z.string(), lease).default({}),
  planLimits: planLimits.optional(),
  /** By the slot. */
  vacant: z.record(z.string(), share).default({}),
});
export type ControlDocument = z.infer<typeof controlDocument>;

/** The text with these changes at its end, and no more than the last `controlRecentMax` in all. */
export function withRecent(text: string, changes: readonly ControlChange[]): string {
  // The rows before are taken as they are: a newer Keyrun may have written more in them.
  const rows = [...rowsOf(text), ...changes.map(rowOf)];
  return JSON.stringify(rows.slice(-bounds.controlRecentMax));
}

/**
 * Reads the changes of a text whose last one has the number `seq`. The last text is remembered, as
 * most heartbeats meet the same again.
 */
export function createRecentReader(): (seq: number, text: string) => readonly NumberedChange[] {
  let last: { seq: number; text: string; changes: readonly NumberedChange[] } | undefined;
  return (seq, text) => {
    if (last?.seq === seq && last.text === text) return last.changes;
    const rows = rowsOf(text);
    const first = seq - rows.length + 1;
    // A Keyrun that does not know a kind keeps no copies of its records, so it has none to drop.
    const changes = rows.flatMap((row, place) => (isKnown(row) ? [changeOf(row, first + place)] : []));
    last = { seq, text, changes };
    return changes;
  };
}

type Row = [kind: string, id: string, version: number, ...more: unknown[]];

/** A row may be longer where a newer Keyrun wrote it. */
const rowsShape: z.ZodType<Row[]> = z.array(
  z.tuple([z.string(), z.string(), z.int().nonnegative()], z.unknown()),
);

function rowsOf(text: string): Row[] {
  return checkRecord(rowsShape, text === "" ? [] : jsonOf(text), "control.recent");
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function rowOf({ kind, id, version, teamId }: ControlChange): Row {
  const row = [kind, id, version, ...(teamId === undefined ? [] : [teamId])] as Row;
  return checkRecord(rowsShape, [row], "control.recent")[0] ?? row;
}

const kinds: Readonly<Record<ControlChange["kind"], true>> = {
  key: true,
  "service-token": true,
  team: true,
  app: true,
  member: true,
  preview: true,
  session: true,
  "plan-limits": true,
  run: true,
};

function isKnown([kind]: Row): boolean {
  return Object.hasOwn(kinds, kind);
}

function changeOf([kind, id, version, teamId]: Row, seq: number): NumberedChange {
  const known = kind as ControlChange["kind"]; // `isKnown` was asked before.
  return { seq, kind: known, id, version, ...(typeof teamId === "string" && { teamId }) };
}
