import type { Collection, Db } from "mongodb";
import { z } from "zod";
import {
  appShape,
  keyShape,
  memberShape,
  pageNumber,
  runRecordShape,
  sessionShape,
  teamShape,
  userShape,
  windowPageShape,
} from "../records.ts";

const id = z.string().min(1);

/**
 * `slot` and `requestKey` have unique indexes; `key-slots.ts` and `insert-key.ts` describe their
 * values.
 */
export const keyDocument = z.strictObject({
  _id: id,
  ...keyShape,
  /** The label in the form of `foldCase`, for searches. */
  labelFolded: z.string(),
  slot: z.string().min(1),
  requestKey: z.string().min(1),
});
export type KeyDocument = z.infer<typeof keyDocument>;

/**
 * A deleted team stays as a document without its facts, so that the version goes up where the id is
 * used again.
 */
export const teamDocument = z.strictObject({ _id: id, ...teamShape, deleted: z.boolean() });
export type TeamDocument = z.infer<typeof teamDocument>;

export const memberDocument = z.strictObject({ _id: id, ...memberShape });
export type MemberDocument = z.infer<typeof memberDocument>;

/** One for each user with access; the e-mail is the id. */
export interface PreviewDocument {
  readonly _id: string;
  readonly granted: true;
}

/**
 * A deleted app stays as a document without its facts, so that the version goes up where the id is
 * used again.
 */
export const appDocument = z.strictObject({ _id: id, ...appShape, deleted: z.boolean() });
export type AppDocument = z.infer<typeof appDocument>;

/** The hash of the token is the id. */
export const sessionDocument = z.strictObject({ _id: id, ...sessionShape });
export type SessionDocument = z.infer<typeof sessionDocument>;

/** The e-mail is the id. */
export const userDocument = z.strictObject({ _id: id, ...userShape });
export type UserDocument = z.infer<typeof userDocument>;

/** The page's number is the id. */
export const windowPageDocument = z.strictObject({ _id: pageNumber, ...windowPageShape });
export type WindowPageDocument = z.infer<typeof windowPageDocument>;

/** Without the text, which is read alone. */
export const runRecordDocument = z.strictObject({ _id: id, ...runRecordShape });
export interface RunRecordDocument extends z.infer<typeof runRecordDocument> {
  readonly text: string | null;
  /** When the record expires, if its text takes room; otherwise null. */
  readonly textExpireTimeMs: number | null;
}

export const instanceDocument = z.strictObject({ _id: id, incarnation: id, beat: z.int().positive() });
export type InstanceDocument = z.infer<typeof instanceDocument>;

export interface MetaDocument {
  readonly _id: string;
  readonly version: number;
}

export interface Collections {
  readonly keys: Collection<KeyDocument>;
  readonly teams: Collection<TeamDocument>;
  readonly members: Collection<MemberDocument>;
  readonly preview: Collection<PreviewDocument>;
  readonly apps: Collection<AppDocument>;
  readonly sessions: Collection<SessionDocument>;
  readonly users: Collection<UserDocument>;
  readonly windowPages: Collection<WindowPageDocument>;
  readonly runRecords: Collection<RunRecordDocument>;
  readonly instances: Collection<InstanceDocument>;
  readonly meta: Collection<MetaDocument>;
}

export function collectionsOf(db: Db): Collections {
  return {
    keys: db.collection("keys"),
    teams: db.collection("teams"),
    members: db.collection("members"),
    preview: db.collection("preview"),
    apps: db.collection("apps"),
    sessions: db.collection("sessions"),
    users: db.collection("users"),
    windowPages: db.collection("windowPages"),
    runRecords: db.collection("runRecords"),
    instances: db.collection("instances"),
    meta: db.collection("meta"),
  };
}
