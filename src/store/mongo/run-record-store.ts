import { type AnyBulkWriteOperation, type Collection, type Filter, MongoBulkWriteError } from "mongodb";
import { bounds } from "../../bounds.ts";
import { unavailable } from "../../refusal/refusal.ts";
import type {
  RunClaim,
  RunRecord,
  RunRecordChange,
  RunRecordStore,
} from "../../run/idempotency/run-record-store.ts";
import { checkRecord, sumByTeam, sumOf } from "../records.ts";
import {
  type BackgroundRunDocument,
  type Collections,
  type RunRecordDocument,
  runRecordDocument,
  storedRunRecord,
} from "./documents.ts";
import type { StoreCall } from "./store-call.ts";

/** The records of runs in MongoDB. */
export function createRunRecordStore({ runRecords }: Collections, call: StoreCall): RunRecordStore {
  /** Writes in one message, and returns the ids of the claims that met a record. */
  async function bulk(changes: readonly RunRecordChange[]): Promise<string[]> {
    try {
      await runRecords.bulkWrite(changes.map(operationOf), { ordered: false });
      return [];
    } catch (thrown) {
      const taken = takenIn(thrown);
      if (taken === undefined) throw thrown;
      return taken.map((index) => changes[index]?.id ?? "");
    }
  }

  async function findAll(ids: readonly string[]): Promise<Map<string, RunRecord>> {
    if (ids.length === 0) return new Map();
    // Also what has not reached a majority yet: the index that refused the claim sees it, too.
    const newest = { ...withoutText, readConcern: { level: "local" } } as const;
    const found = await call(() => runRecords.find({ _id: { $in: [...ids] } }, newest).toArray());
    return new Map(found.map((document) => [document._id, recordOf(document)]));
  }

  return {
    async write(changes) {
      if (changes.length === 0) return []; // MongoDB refuses an empty message.
      let taken = await call(() => bulk(changes));
      for (let tries = 0; tries < bounds.claimTriesMax; tries++) {
        const found = await findAll(taken);
        const gone = changes.filter(({ id }) => taken.includes(id) && !found.has(id));
        if (gone.length === 0) return changes.map(({ id }) => found.get(id));
        // Their records were removed in between.
        taken = [...found.keys(), ...(await call(() => bulk(gone)))];
      }
      throw unavailable({ cause: new Error("records came and went while they were claimed") });
    },
    async find(id) {
      const document = await call(() => runRecords.findOne({ _id: { $eq: id } }, withoutText));
      return document ? recordOf(document) : undefined;
    },
    async textOf(id, runId) {
      // As new as the record: what it says is there must not be missing here.
      const text = { projection: { _id: 0, text: 1 }, readConcern: { level: "local" } } as const;
      const found = await call(() => runRecords.findOne({ _id: { $eq: id }, runId: { $eq: runId } }, text));
      return typeof found?.text === "string" ? found.text : null;
    },
    ...createKeptTexts(runRecords, call, { noBytes: 0 }),
  };
}

type KeptTexts = Pick<
  RunRecordStore,
  "totals" | "deleteOldest" | "dropTexts" | "deleteExpired" | "deleteAll"
>;

/** What the documents of both kinds of runs have. */
type KeptDocument = RunRecordDocument | BackgroundRunDocument;

/**
 * What a collection of runs does within the quota of a team, and when its documents expire.
 * `noBytes` stands where no text is kept. Only those of `oldest` make room.
 */
export function createKeptTexts<Kept extends KeptDocument>(
  ofKind: Collection<Kept>,
  call: StoreCall,
  { noBytes, oldest = {} }: { readonly noBytes: 0 | null; readonly oldest?: Filter<KeptDocument> },
): KeptTexts {
  // Only the fields that both kinds have are asked for and set.
  const runs = ofKind as unknown as Collection<KeptDocument>;

  /** Removes the first of the records that this finds, and returns what they are. */
  async function remove(
    filter: Filter<KeptDocument>,
    { limit, first }: { limit: number; first: "createTimeMs" | "expireTimeMs" },
  ) {
    if (limit <= 0) return []; // MongoDB takes 0 for no limit.
    const batch = runs
      .find(filter)
      .sort({ [first]: 1 }) // An index has this order: without one, each batch would read them all.
      .limit(limit)
      .project<Pick<KeptDocument, "_id" | "teamId" | "textBytes">>({ teamId: 1, textBytes: 1 });
    const found = await call(() => batch.toArray());
    if (found.length === 0) return [];
    const ids = found.map(({ _id }) => _id);
    // Checks again: a record that has expired may have been replaced since.
    await call(() => runs.deleteMany({ $and: [{ _id: { $in: ids } }, filter] }));
    return found.map(({ teamId, textBytes }) => ({ teamId, textBytes: textBytes ?? 0 }));
  }

  return {
    async totals(teamId) {
      const ofTeam = { teamId: { $eq: teamId } };
      const sum = { $group: { _id: null, textBytes: { $sum: "$textBytes" } } };
      const records = await call(() => runs.countDocuments(ofTeam));
      const [found] = await call(() => runs.aggregate([{ $match: ofTeam }, sum]).toArray());
      return { records, textBytes: Number(found?.textBytes ?? 0) };
    },
    async deleteOldest(teamId, { createdUntilMs, limit }) {
      const old = { ...oldest, teamId: { $eq: teamId }, createTimeMs: { $lte: createdUntilMs } };
      return sumOf(await remove(old, { limit, first: "createTimeMs" }));
    },
    async dropTexts(teamId, { bytes, limit }) {
      if (limit <= 0) return 0;
      const texts = runs
        .find({ teamId: { $eq: teamId }, textExpireTimeMs: { $gte: 0 } })
        .sort({ textExpireTimeMs: 1 })
        .limit(limit)
        .project<Pick<KeptDocument, "_id" | "textBytes">>({ textBytes: 1 });
      const ids: string[] = [];
      let freed = 0;
      for (const { _id, textBytes } of await call(() => texts.toArray())) {
        if (freed >= bytes) break;
        ids.push(_id);
        freed += textBytes ?? 0;
      }
      const without = { $set: { text: null, textBytes: noBytes, textExpireTimeMs: null } };
      if (ids.length > 0) await call(() => runs.updateMany({ _id: { $in: ids } }, without));
      return freed;
    },
    async deleteExpired({ nowMs, limit }) {
      // What runs in the background has no number there, so it is not found.
      return sumByTeam(await remove({ expireTimeMs: { $lte: nowMs } }, { limit, first: "expireTimeMs" }));
    },
    async deleteAll(teamId, limit) {
      return (await remove({ teamId: { $eq: teamId } }, { limit, first: "createTimeMs" })).length;
    },
  };
}

const withoutText = { projection: { text: 0, textExpireTimeMs: 0 } };

function operationOf(change: RunRecordChange): AnyBulkWriteOperation<RunRecordDocument> {
  if (change.kind === "claim") return insertOf(change.claim);
  const from = change.kind === "release" ? change.state : "running";
  const filter = { _id: { $eq: change.id }, runId: { $eq: change.runId }, state: { $eq: from } };
  if (change.kind === "release") return { deleteOne: { filter } };
  const { state, text, textBytes, expireTimeMs } = change;
  const kept = { state, text, textBytes, expireTimeMs };
  const textExpireTimeMs = textBytes > 0 ? expireTimeMs : null;
  return { updateOne: { filter, update: { $set: { ...kept, textExpireTimeMs } }, upsert: false } };
}

function insertOf({ id, ...facts }: RunClaim): AnyBulkWriteOperation<RunRecordDocument> {
  const fields = { _id: id, ...facts, textBytes: 0 };
  const record = checkRecord(runRecordDocument, fields, "runRecords");
  return { insertOne: { document: { ...record, text: null, textExpireTimeMs: null } } };
}

/** The places of the writes that met a record; undefined if anything else went wrong. */
function takenIn(thrown: unknown): number[] | undefined {
  if (!(thrown instanceof MongoBulkWriteError)) return undefined;
  const errors = Array.isArray(thrown.writeErrors) ? thrown.writeErrors : [thrown.writeErrors];
  const areTaken = errors.length > 0 && errors.every(({ code }) => code === 11_000);
  return areTaken && !thrown.result.getWriteConcernError() ? errors.map(({ index }) => index) : undefined;
}

function recordOf(document: unknown): RunRecord {
  const { _id, ...facts } = checkRecord(storedRunRecord, document, "runRecords");
  return { id: _id, ...facts };
}
