import { z } from "zod";
import { type AppRecord, type AppStore, appRecord, type NewApp } from "../../apps/app-store.ts";
import { checkRecord, given } from "../records.ts";
import type { ReadConcernOptions } from "./connection.ts";
import { type AppDocument, appDocument, type Collections, storedApp } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";
import type { WithEvent } from "./with-event.ts";

/** The apps in MongoDB. */
export function createAppStore(
  { apps }: Collections,
  call: StoreCall,
  withEvent: WithEvent,
  readOptions: ReadConcernOptions = {},
): AppStore {
  const after = { returnDocument: "after" } as const;
  const live = (appId: string) => ({ _id: { $eq: appId }, deleted: { $eq: false } });

  return {
    insert: (app) =>
      withEvent(async () => {
        const document = newDocument(app);
        try {
          await call(() => apps.insertOne(document));
          return checkApp(document);
        } catch (thrown) {
          if (!isDuplicate(thrown)) throw thrown;
        }
        // Where a deleted app has the id, its version is raised. Where a live app has it, nothing
        // is written.
        const { _id, version, ...facts } = document;
        const deleted = { _id: { $eq: _id }, deleted: { $eq: true } };
        const update = { $set: facts, $inc: { version: 1 } };
        return appOf(await call(() => apps.findOneAndUpdate(deleted, update, after)));
      }),
    async find(appId) {
      return appOf(await call(() => apps.findOne(live(appId), readOptions)));
    },
    async list({ limit, after: afterId, runnableBy }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const query = {
        _id: { $gt: afterId ?? "" },
        deleted: { $eq: false },
        ...(runnableBy !== undefined && {
          $or: [{ teamIds: { $size: 0 } }, { teamIds: { $eq: runnableBy } }],
        }),
      };
      const page = apps.find(query).sort({ _id: 1 }).limit(limit);
      return (await call(() => page.toArray())).map(checkApp);
    },
    async limitedTo(teamId, limit) {
      if (limit <= 0) return [];
      const page = apps.find({ teamIds: { $eq: teamId }, deleted: { $eq: false } }).sort({ _id: 1 });
      return (await call(() => page.limit(limit).toArray())).map(({ _id }) => _id);
    },
    update: (appId, change, version) =>
      withEvent(async () => {
        const fields = checkRecord(appChange, given(change), `apps/${appId}`);
        const update = { ...(Object.keys(fields).length > 0 && { $set: fields }), $inc: { version: 1 } };
        const query = { ...live(appId), ...(version !== undefined && { version: { $eq: version } }) };
        return appOf(await call(() => apps.findOneAndUpdate(query, update, after)));
      }),
    delete: (appId) =>
      withEvent(async () => {
        const update = { $set: deletion, $inc: { version: 1 } };
        return (await call(() => apps.findOneAndUpdate(live(appId), update, after)))?.version;
      }),
    async deletedVersion(appId) {
      const gone = { _id: { $eq: appId }, deleted: { $eq: true } };
      // This write changes nothing, but it waits until the deletion is durable. A read would not.
      return (await call(() => apps.findOneAndUpdate(gone, { $max: { version: 1 } }, after)))?.version;
    },
  };
}

const { displayName, backend, timeoutMs, streamTimeoutMs, backgroundTimeoutMs, teamIds } = appRecord.shape;
const appChange = z.strictObject({
  displayName: displayName.exactOptional(),
  backend: backend.exactOptional(),
  timeoutMs: timeoutMs.exactOptional(),
  streamTimeoutMs: streamTimeoutMs.exactOptional(),
  backgroundTimeoutMs: backgroundTimeoutMs.exactOptional(),
  teamIds: teamIds.exactOptional(),
});

/** The backend's headers may be credentials, so they are deleted with the app. */
const deletion = {
  displayName: "",
  backend: { kind: "echo" },
  teamIds: [] as string[],
  deleted: true,
} as const;

function newDocument({ id, ...facts }: NewApp): AppDocument {
  return checkRecord(appDocument, { _id: id, ...facts, version: 1, deleted: false }, `apps/${id}`);
}

function appOf(document: AppDocument | null): AppRecord | undefined {
  return document ? checkApp(document) : undefined;
}

function checkApp(document: AppDocument): AppRecord {
  const { _id, deleted, ...facts } = checkRecord(storedApp, document, `apps/${document._id}`);
  return { id: _id, ...facts };
}
