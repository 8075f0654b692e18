import { z } from "zod";
import type { HandedShare, HeldPlanLimits, LeaseRecord } from "../../fleet/control-store.ts";

const count = z.int().nonnegative();

// While a fleet is upgraded, instances of two versions write this document. So unknown fields are
// ignored, and a field that is added later needs a default.
const facts = z.object({
  protocol: count,
  version: z.string().default(""),
  schema: count,
  secretVersions: z.array(z.string()),
  serviceTokenMark: z.string(),
  keyPrefix: z.string(),
  address: z.string().nullable().default(null),
  alone: z.boolean().default(false),
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
  state: z.enum(["live", "fenced"]),
  order: count,
  facts,
  limits: limits.optional(),
  share: share.optional(),
}) satisfies z.ZodType<Omit<LeaseRecord, "id">>;

const planLimits = z.object({
  order: count,
  limits: z.record(z.string(), count),
}) satisfies z.ZodType<HeldPlanLimits>;

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
