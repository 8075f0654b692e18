import type { Filter } from "mongodb";
import type {
  BackgroundEnd,
  BackgroundRecord,
  BackgroundRunStore,
  RunsUnderWay,
} from "../../run/background/background-store.ts";
import { checkRecord } from "../records.ts";
import {
  type BackgroundRunDocument,
  backgroundRunDocument,
  type Collections,
  storedBackgroundRun,
} from "./documents.ts";
import { createKeptTexts } from "./run-record-store.ts";
import type { StoreCall } from "./store-call.ts";

/** The runs in the background, in MongoDB. */
export function createBackgroundRunStore(
  { backgroundRuns }: Collections,
  call: StoreCall,
): BackgroundRunStore {
  async function find(id: string): Promise<BackgroundRecord | undefined> {
    const document = await call(() => backgroundRuns.findOne({ _id: { $eq: id } }, newest));
    return document ? recordOf(document) : undefined;
  }

  return {
    async insert({ id, ...facts }) {
      const record = checkRecord(backgroundRunDocument, { _id: id, ...facts }, "backgroundRuns");
      const document = { ...record, text: null, textExpireTimeMs: null };
      await call(() => backgroundRuns.insertOne(document));
    },
    async end(id, end) {
      const running = { _id: { $eq: id }, state: { $eq: "running" as const } };
      await call(() => backgroundRuns.updateOne(running, { $set: endFieldsOf(end) }, { upsert: false }));
      return find(id);
    },
    async endAll(runs, end, limit) {
      if (limit <= 0) return [];
      const filter = conditionOf(runs);
      const some = backgroundRuns.find(filter).limit(limit).project<{ _id: string }>({ _id: 1 });
      const ids = (await call(() => some.toArray())).map(({ _id }) => _id);
      if (ids.length === 0) return ids;
      const running = { _id: { $in: ids }, state: { $eq: "running" as const } };
      await call(() => backgroundRuns.updateMany(running, { $set: endFieldsOf(end) }));
      return ids;
    },
    async remove(id) {
      await call(() => backgroundRuns.deleteOne({ _id: { $eq: id } }));
    },
    find,
    async textOf(id) {
      // As new as the record: what it says is there must not be missing here.
      const text = { projection: { _id: 0, text: 1 }, readConcern: { level: "local" } } as const;
      const found = await call(() => backgroundRuns.findOne({ _id: { $eq: id } }, text));
      return typeof found?.text === "string" ? found.text : null;
    },
    async stillRunning(ids) {
      const running = { _id: { $in: [...ids] }, state: { $eq: "running" as const } };
      const found = backgroundRuns.find(running).project<{ _id: string }>({ _id: 1 });
      return (await call(() => found.toArray())).map(({ _id }) => _id);
    },
    owners: () => call(() => backgroundRuns.distinct("owner", { state: { $eq: "running" as const } })),
    async list(teamId, { after, limit, appIds }) {
      if (limit <= 0) return [];
      const place = after && {
        $or: [
          { createTimeMs: { $lt: after.timeMs } },
          { createTimeMs: { $eq: after.timeMs }, _id: { $lt: after.id } },
        ],
      };
      const apps = appIds && { appId: { $in: [...appIds] } };
      const found = backgroundRuns
        .find({ teamId: { $eq: teamId }, ...place, ...apps }, newest)
        .sort({ createTimeMs: -1, _id: -1 })
        .limit(limit);
      return (await call(() => found.toArray())).map(recordOf);
    },
    // A run under way is not forgotten.
    ...createKeptTexts(backgroundRuns, call, { noBytes: null, oldest: { state: { $ne: "running" } } }),
  };
}

const withoutText = { text: 0, textExpireTimeMs: 0 } as const;
/** Also what has not reached a majority yet: it is what the next conditional write meets. */
const newest = { projection: withoutText, readConcern: { level: "local" } } as const;

function endFieldsOf({ state, text, error, endTimeMs, expireTimeMs }: BackgroundEnd) {
  const textBytes = text === null ? null : Buffer.byteLength(text);
  const textExpireTimeMs = textBytes !== null && textBytes > 0 ? expireTimeMs : null;
  return { state, text, textBytes, error, endTimeMs, expireTimeMs, textExpireTimeMs };
}

function conditionOf({ teamId, appId, exceptTeamIds, owner }: RunsUnderWay): Filter<BackgroundRunDocument> {
  const ofTeam = {
    ...(teamId !== undefined && { $eq: teamId }),
    ...(exceptTeamIds !== undefined && { $nin: [...exceptTeamIds] }),
  };
  return {
    state: { $eq: "running" },
    ...(Object.keys(ofTeam).length > 0 && { teamId: ofTeam }),
    ...(appId !== undefined && { appId: { $eq: appId } }),
    ...(owner !== undefined && { owner: { $eq: owner } }),
  };
}

function recordOf(document: unknown): BackgroundRecord {
  const { _id, ...facts } = checkRecord(storedBackgroundRun, document, "backgroundRuns");
  return { id: _id, ...facts };
}
