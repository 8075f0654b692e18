/**
 * A document is written with these fields and no others. What is read may have a field of a newer
 * instance of a fleet that is upgraded, which is ignored.
 */

import type { Collection, Db } from "mongodb";
import { z } from "zod";
import { appRecord } from "../../apps/app-store.ts";
import { auditRecord } from "../../audit/audit-store.ts";
import { filled as id } from "../../base/record-fields.ts";
import { keyRecord } from "../../keys/key-store.ts";
import { quotaRecord } from "../../quota/quota-store.ts";
import { runRecord } from "../../run/kept/run-store.ts";
import { serviceTokenRecord } from "../../service-tokens/service-token-store.ts";
import { sessionRecord, userRecord } from "../../sign-in/sign-in-store.ts";
import { memberRecord, teamRecord } from "../../teams/team-store.ts";
import type { UsageRecord } from "../../usage/usage-store.ts";
import type { ControlDocument } from "./control-document.ts";

/**
 * `slot` and `requestKey` have unique indexes; `key-documents.ts` describes their values.
 */
export const keyDocument = keyRecord.omit({ id: true }).extend({
  _id: id,
  /** The label in the form of `searchForm`, for searches. */
  labelFolded: z.string(),
  slot: z.string().min(1),
  requestKey: z.string().min(1),
});
export type KeyDocument = z.infer<typeof keyDocument>;
export const storedKey = keyDocument.strip();

/** `slot` and `nameKey` have unique indexes; `service-token-store.ts` describes their values. */
export const serviceTokenDocument = serviceTokenRecord
  .omit({ id: true })
  .extend({ _id: id, slot: z.string().min(1), nameKey: z.string().min(1) });
export type ServiceTokenDocument = z.infer<typeof serviceTokenDocument>;
export const storedServiceToken = serviceTokenDocument.strip();

/**
 * A deleted team stays as a document without its facts, so that the version goes up where the id is
 * used again.
 */
export const teamDocument = teamRecord.omit({ id: true }).extend({ _id: id, deleted: z.boolean() });
export type TeamDocument = z.infer<typeof teamDocument>;
export const storedTeam = teamDocument.strip();

export const memberDocument = memberRecord.extend({ _id: id });
export type MemberDocument = z.infer<typeof memberDocument>;
export const storedMember = memberDocument.strip();

/** One for each user with access; the e-mail is the id. */
export interface PreviewDocument {
  readonly _id: string;
  readonly granted: true;
}

/**
 * A deleted app stays as a document without its facts, so that the version goes up where the id is
 * used again.
 */
export const appDocument = appRecord.omit({ id: true }).extend({ _id: id, deleted: z.boolean() });
export type AppDocument = z.infer<typeof appDocument>;
export const storedApp = appDocument.strip();

/** The hash of the token is the id. */
export const sessionDocument = sessionRecord.omit({ idHash: true }).extend({ _id: id });
export type SessionDocument = z.infer<typeof sessionDocument>;
export const storedSession = sessionDocument.strip();

/** The e-mail is the id. */
export const userDocument = userRecord.omit({ email: true }).extend({ _id: id }).strip();
export type UserDocument = z.infer<typeof userDocument>;

/** `keyHash` has a unique index. Without the text, which is read alone. */
export const runDocument = runRecord.omit({ id: true }).extend({ _id: id });
export const storedRun = runDocument.strip();
export interface RunDocument extends z.infer<typeof runDocument> {
  readonly text: string | null;
  /** When the record expires, if its text takes room; otherwise null. */
  readonly textExpireTimeMs: number | null;
}

/** The last batch of each process that was added to a document of usage. */
interface Added {
  readonly by?: Readonly<Record<string, number>>;
}

/** What was counted for a key on a day, as `usage-store.ts` describes its counts. */
export interface UsageHoursDocument extends Added {
  readonly _id: string;
  readonly teamId: string;
  readonly keyId: string;
  readonly dayMs: number;
  readonly [count: `${"a" | "l" | "f" | "t"}${number}`]: number;
}

export interface UsageDayDocument extends UsageRecord, Added {
  readonly _id: string;
}

const quotaDocument = quotaRecord.omit({ id: true }).extend({ _id: id });
export type QuotaDocument = z.infer<typeof quotaDocument>;
export const storedQuota = quotaDocument.strip();

export const auditDocument = auditRecord.omit({ id: true }).extend({ _id: id });
export type AuditDocument = z.infer<typeof auditDocument>;
export const storedAuditEvent = auditDocument.strip();

const instanceDocument = z.strictObject({ _id: id, incarnation: id, beat: z.int().positive() });
export type InstanceDocument = z.infer<typeof instanceDocument>;
export const storedInstance = instanceDocument.strip();

export interface MetaDocument {
  readonly _id: string;
  readonly version: number;
  /** In the document of the fleet: its id. */
  readonly fleetId?: string;
  /** In the mark of a copy: the copier that set it. */
  readonly copier?: string;
}

/** The `version` of the mark of a copy: from the data folder, all or not yet all is there. */
export const copyStates = { underWay: 1, whole: 2 } as const;

export interface Collections {
  readonly keys: Collection<KeyDocument>;
  readonly serviceTokens: Collection<ServiceTokenDocument>;
  readonly teams: Collection<TeamDocument>;
  readonly members: Collection<MemberDocument>;
  readonly preview: Collection<PreviewDocument>;
  readonly apps: Collection<AppDocument>;
  readonly sessions: Collection<SessionDocument>;
  readonly users: Collection<UserDocument>;
  readonly runs: Collection<RunDocument>;
  readonly usageHours: Collection<UsageHoursDocument>;
  readonly usageDays: Collection<UsageDayDocument>;
  readonly quotas: Collection<QuotaDocument>;
  readonly auditEvents: Collection<AuditDocument>;
  readonly instances: Collection<InstanceDocument>;
  readonly control: Collection<ControlDocument>;
  readonly meta: Collection<MetaDocument>;
}

export function collectionsOf(db: Db): Collections {
  return {
    keys: db.collection("keys"),
    serviceTokens: db.collection("serviceTokens"),
    teams: db.collection("teams"),
    members: db.collection("members"),
    preview: db.collection("preview"),
    apps: db.collection("apps"),
    sessions: db.collection("sessions"),
    users: db.collection("users"),
    runs: db.collection("runs"),
    usageHours: db.collection("usageHours"),
    usageDays: db.collection("usageDays"),
    quotas: db.collection("quotas"),
    auditEvents: db.collection("auditEvents"),
    instances: db.collection("instances"),
    control: db.collection("control"),
    meta: db.collection("meta"),
  };
}
