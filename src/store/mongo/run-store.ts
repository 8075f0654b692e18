import { type AnyBulkWriteOperation, type Filter, MongoBulkWriteError } from "mongodb";
import { bounds } from "../../bounds.ts";
import { unavailable } from "../../refusal/refusal.ts";
import type { RunChange, RunEnd, RunRecord, RunStore, RunsUnderWay } from "../../run/kept/run-store.ts";
import { checkRecord, sumByTeam, sumOf } from "../records.ts";
import { type Collections, type RunDocument, runDocument, storedRun } from "./documents.ts";
import type { StoreCall } from "./store-call.ts";

/** The records of runs in MongoDB. */
export function createRunStore(collections: Collections, call: StoreCall): RunStore {
  const { runs } = collections;

  async function findOne(filter: Filter<RunDocument>): Promise<RunRecord | undefined> {
    const document = await call(() => runs.findOne(filter, newest));
    return document ? recordOf(document) : undefined;
  }

  return {
    write: createWrite(collections, call),
    async endAll(which, end, limit) {
      if (limit <= 0) return [];
      const some = runs.find(conditionOf(which)).limit(limit).project<{ _id: string }>({ _id: 1 });
      const ids = (await call(() => some.toArray())).map(({ _id }) => _id);
      if (ids.length === 0) return ids;
      await call(() => runs.updateMany({ _id: { $in: ids }, ...running }, { $set: endFieldsOf(end) }));
      return ids;
    },
    find: (id) => findOne({ _id: { $eq: id } }),
    findByKey: (keyHash) => findOne({ keyHash: { $eq: keyHash } }),
    async textOf(id) {
      // As new as the record: what it says is there must not be missing here.
      const text = { projection: { _id: 0, text: 1 }, readConcern: { level: "local" } } as const;
      const found = await call(() => runs.findOne({ _id: { $eq: id } }, text));
      return typeof found?.text === "string" ? found.text : null;
    },
    async stillRunning(ids) {
      if (ids.length === 0) return []; // MongoDB takes a limit of 0 for none.
      const found = runs
        .find({ _id: { $in: [...ids] }, ...running })
        .limit(ids.length)
        .project<{ _id: string }>({ _id: 1 });
      return (await call(() => found.toArray())).map(({ _id }) => _id);
    },
    owners: () => call(() => runs.distinct("owner", running)),
    async list(teamId, { after, limit, appIds }) {
      if (limit <= 0) return [];
      const place = after && {
        $or: [
          { createTimeMs: { $lt: after.timeMs } },
          { createTimeMs: { $eq: after.timeMs }, _id: { $lt: after.id } },
        ],
      };
      const apps = appIds && { appId: { $in: [...appIds] } };
      const found = runs
        .find({ teamId: { $eq: teamId }, listed: { $eq: true }, ...place, ...apps }, newest)
        .sort({ createTimeMs: -1, _id: -1 })
        .limit(limit);
      return (await call(() => found.toArray())).map(recordOf);
    },
    ...createRemovals(collections, call),
  };
}

/** `write` of the port: one message, and one more for what stood in the way. */
function createWrite({ runs }: Collections, call: StoreCall): RunStore["write"] {
  /** Each of the values has one record at most. */
  async function findEach(field: "_id" | "keyHash", values: readonly string[]): Promise<RunRecord[]> {
    const found = runs.find({ [field]: { $in: [...values] } }, newest).limit(values.length);
    return (await call(() => found.toArray())).map(recordOf);
  }

  /** Returns the inserts that met a record, and whether an end may have met one. */
  async function bulk(changes: readonly RunChange[]) {
    const ends = changes.filter(({ kind }) => kind === "end").length;
    try {
      const { matchedCount } = await runs.bulkWrite(changes.map(operationOf), { ordered: false });
      return { taken: [], isEnded: matchedCount < ends };
    } catch (thrown) {
      const taken = takenIn(thrown);
      if (taken === undefined || !(thrown instanceof MongoBulkWriteError)) throw thrown;
      return { taken: taken.flatMap((index) => changes[index] ?? []), isEnded: thrown.matchedCount < ends };
    }
  }

  /** The records that have the keys of these inserts, of which one is repeated if its is gone. */
  async function findTaken(taken: readonly RunChange[]): Promise<Map<RunChange, RunRecord>> {
    const met = new Map<RunChange, RunRecord>();
    for (let left = taken, tries = 0; left.length > 0; tries++) {
      if (tries > bounds.claimTriesMax) {
        throw unavailable({ cause: new Error("records came and went while they were inserted") });
      }
      const found = await findEach("keyHash", left.map(keyHashOf));
      const byKey = new Map(found.map((record) => [record.keyHash, record]));
      for (const change of left) {
        const record = byKey.get(keyHashOf(change));
        if (record) met.set(change, record);
      }
      const gone = left.filter((change) => !met.has(change));
      left = gone.length > 0 ? (await call(() => bulk(gone))).taken : [];
    }
    return met;
  }

  return async (changes) => {
    if (changes.length === 0) return []; // MongoDB refuses an empty message.
    const { taken, isEnded } = await call(() => bulk(changes));
    const met = await findTaken(taken);
    const ids = changes.map(({ id }) => id);
    const ended = isEnded ? await findEach("_id", ids) : [];
    return changes.map((change) => {
      if (change.kind !== "end") return met.get(change);
      const { state, endTimeMs } = change.end;
      const isOther = (one: RunRecord) => one.state !== state || one.endTimeMs !== endTimeMs;
      return ended.find((one) => one.id === change.id && isOther(one));
    });
  };
}

/** What is removed within the quota of a team, with its team, or as it has expired. */
function createRemovals(
  { runs }: Collections,
  call: StoreCall,
): Pick<RunStore, "totals" | "deleteOldest" | "dropTexts" | "deleteExpired" | "deleteAll"> {
  /** Removes the first of the records that this finds, and returns what they are. */
  async function remove(
    filter: Filter<RunDocument>,
    { limit, first }: { limit: number; first: "createTimeMs" | "expireTimeMs" },
  ) {
    if (limit <= 0) return []; // MongoDB takes 0 for no limit.
    const batch = runs
      .find(filter)
      .sort({ [first]: 1 }) // An index has this order: without one, each batch would read them all.
      .limit(limit)
      .project<Pick<RunDocument, "_id" | "teamId" | "textBytes">>({ teamId: 1, textBytes: 1 });
    const found = await call(() => batch.toArray());
    if (found.length === 0) return [];
    const ids = found.map(({ _id }) => _id);
    // Checks again: a run that ends meanwhile is kept for longer.
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
      // A run under way is not forgotten.
      const ended = { state: { $ne: "running" as const } };
      const old = { ...ended, teamId: { $eq: teamId }, createTimeMs: { $lte: createdUntilMs } };
      return sumOf(await remove(old, { limit, first: "createTimeMs" }));
    },
    async dropTexts(teamId, { bytes, limit }) {
      if (limit <= 0) return 0;
      const texts = runs
        .find({ teamId: { $eq: teamId }, textExpireTimeMs: { $gte: 0 } })
        .sort({ textExpireTimeMs: 1 })
        .limit(limit)
        .project<Pick<RunDocument, "_id" | "textBytes">>({ textBytes: 1 });
      const ids: string[] = [];
      let freed = 0;
      for (const { _id, textBytes } of await call(() => texts.toArray())) {
        if (freed >= bytes) break;
        ids.push(_id);
        freed += textBytes ?? 0;
      }
      const without = { $set: { text: null, textBytes: null, textExpireTimeMs: null } };
      if (ids.length > 0) await call(() => runs.updateMany({ _id: { $in: ids } }, without));
      return freed;
    },
    deleteExpired: async ({ nowMs, limit }) =>
      sumByTeam(await remove({ expireTimeMs: { $lte: nowMs } }, { limit, first: "expireTimeMs" })),
    deleteAll: async (teamId, limit) =>
      (await remove({ teamId: { $eq: teamId } }, { limit, first: "createTimeMs" })).length,
  };
}

const running = { state: { $eq: "running" as const } };
const withoutText = { text: 0, textExpireTimeMs: 0 } as const;
/**
 * Also what has not reached a majority yet: it is what the next conditional write meets, and the
 * index that refuses an insert.
 */
const newest = { projection: withoutText, readConcern: { level: "local" } } as const;

const keyHashOf = (change: RunChange) => (change.kind === "insert" ? change.record.keyHash : "");

function operationOf(change: RunChange): AnyBulkWriteOperation<RunDocument> {
  const _id = { $eq: change.id };
  if (change.kind === "insert") return { insertOne: { document: documentOf(change.record) } };
  if (change.kind === "remove") return { deleteOne: { filter: { _id, state: { $eq: change.state } } } };
  const freed = change.end.freesKey && { keyHash: change.id };
  const update = { $set: { ...endFieldsOf(change.end), ...freed } };
  return { updateOne: { filter: { _id, ...running }, update, upsert: false } };
}

function documentOf({ id, ...facts }: RunRecord): RunDocument {
  const record = checkRecord(runDocument, { _id: id, ...facts }, "runs");
  return { ...record, text: null, textExpireTimeMs: null };
}

function endFieldsOf({ state, text, error, endTimeMs, expireTimeMs }: RunEnd) {
  const textBytes = text === null ? null : Buffer.byteLength(text);
  const textExpireTimeMs = textBytes !== null && textBytes > 0 ? expireTimeMs : null;
  return { state, text, textBytes, error, endTimeMs, expireTimeMs, textExpireTimeMs };
}

/** The places of the writes that met a record; undefined if anything else went wrong. */
function takenIn(thrown: unknown): number[] | undefined {
  if (!(thrown instanceof MongoBulkWriteError)) return undefined;
  const errors = Array.isArray(thrown.writeErrors) ? thrown.writeErrors : [thrown.writeErrors];
  const areTaken = errors.length > 0 && errors.every(({ code }) => code === 11_000);
  return areTaken && !thrown.result.getWriteConcernError() ? errors.map(({ index }) => index) : undefined;
}

function conditionOf(runs: RunsUnderWay): Filter<RunDocument> {
  const { teamId, appId, exceptTeamIds, owner, listed } = runs;
  const ofTeam = {
    ...(teamId !== undefined && { $eq: teamId }),
    ...(exceptTeamIds !== undefined && { $nin: [...exceptTeamIds] }),
  };
  return {
    ...running,
    ...(Object.keys(ofTeam).length > 0 && { teamId: ofTeam }),
    ...(appId !== undefined && { appId: { $eq: appId } }),
    ...(owner !== undefined && { owner: { $eq: owner } }),
    ...(listed !== undefined && { listed: { $eq: listed } }),
  };
}

function recordOf(document: unknown): RunRecord {
  const { _id, ...facts } = checkRecord(storedRun, document, "runs");
  return { id: _id, ...facts };
}
