import type { Db } from "mongodb";
import { bounds } from "../../bounds.ts";
import type { Clock } from "../../clock.ts";
import {
  type InstanceEvents,
  type InstanceGuard,
  type InstanceTimes,
  takeInstance,
} from "../../fleet/instance-guard.ts";
import type { InstanceRecordStore } from "../../fleet/instance-record-store.ts";
import { Refusal } from "../../refusal/refusal.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { createLookUpEach } from "../look-up-each.ts";
import type { Stores } from "../stores.ts";
import { createAppStore } from "./app-store.ts";
import { connectMongo, type MongoConnection } from "./connection.ts";
import { collectionsOf } from "./documents.ts";
import { createInstanceRecordStore } from "./instance-record.ts";
import { createKeyStore } from "./key-store.ts";
import { createMemberStore } from "./member-store.ts";
import { migrate } from "./migrations.ts";
import { createPreviewStore } from "./preview-store.ts";
import { createRevival, type Revival } from "./revival.ts";
import { createRunRecordStore } from "./run-record-store.ts";
import { createSessionStore } from "./session-store.ts";
import { createStoreCall, type StoreCall, whileHolding } from "./store-call.ts";
import { createTeamStore } from "./team-store.ts";
import { createUserStore } from "./user-store.ts";
import { createWindowStore } from "./window-store.ts";

export interface MongoStoresParts {
  /** May hold a password, so it never appears in a message. */
  readonly uri: string;
  readonly clock: Clock;
  /** A new UUID each time. */
  readonly newIncarnation: () => string;
  readonly events: InstanceEvents;
  /** Ends the wait for another instance to leave. */
  readonly signal?: AbortSignal | undefined;
  /** The times in `bounds` where it is absent. */
  readonly times?: InstanceTimes;
  /** How long to wait for the server at the start; `storeStartMsMax` where it is absent. */
  readonly startMsMax?: number;
  /**
   * How long the store may be out of reach before the client connects anew; `storeRevivalMs` where
   * it is absent.
   */
  readonly revivalMs?: number;
  /** How long one operation may take; `storeTimeoutMs` where it is absent. */
  readonly callMsMax?: number;
}

/**
 * Opens the stores in MongoDB for this instance alone, and brings the database up to date. Throws
 * StartRefused where the server can't be reached, another instance serves the database, or a newer
 * Keyrun wrote it.
 */
export async function openMongoStores(parts: MongoStoresParts): Promise<Stores> {
  // Preparing may take long where the server has just started or there are many documents.
  const preparing = await connectMongo(parts.uri, {
    selectionMsMax: parts.startMsMax ?? bounds.storeStartMsMax,
    socketMsMax: bounds.storePrepareMsMax,
  });
  const closers = [() => preparing.client.close()];
  try {
    const callMsMax = parts.callMsMax ?? bounds.storeTimeoutMs;
    const serving = await connectMongo(parts.uri, { selectionMsMax: callMsMax, socketMsMax: callMsMax });
    const afterMs = parts.revivalMs ?? bounds.storeRevivalMs;
    const revival = createRevival(serving.client, { clock: parts.clock, afterMs });
    closers.push(() => revival.close());
    const call = revival.watch(createStoreCall(callMsMax));
    const guard = await takeInstance({ times: instanceTimes, ...parts, records: recordsOf(serving, call) });
    closers.push(() => guard.release());
    await createStoreCall(bounds.storePrepareMsMax)(() => migrate(collectionsOf(preparing.db)));
    await preparing.client.close();
    return storesOf(serving.db, { guard, revival, call: whileHolding(guard, call) });
  } catch (thrown) {
    for (const close of closers.reverse()) await close();
    throw startRefusal(thrown);
  }
}

const instanceTimes: InstanceTimes = {
  renewMs: bounds.instanceRenewMs,
  holdMs: bounds.instanceHoldMs,
  lapseMs: bounds.instanceLapseMs,
  waitMsMax: bounds.instanceWaitMsMax,
};

function recordsOf({ db }: MongoConnection, call: StoreCall): InstanceRecordStore {
  return createInstanceRecordStore(collectionsOf(db), call);
}

function startRefusal(thrown: unknown): unknown {
  if (!(thrown instanceof Refusal) || thrown.reason !== "UNAVAILABLE") return thrown;
  const problem = "MongoDB stopped answering while Keyrun started. Check that it runs well, and start again.";
  return new StartRefused(problem, { cause: thrown.cause });
}

function storesOf(
  db: Db,
  {
    guard,
    revival,
    call,
  }: { readonly guard: InstanceGuard; readonly revival: Revival; readonly call: StoreCall },
): Stores {
  const collections = collectionsOf(db);
  const keys = createKeyStore(collections, call);
  const teams = createTeamStore(collections, call);
  const apps = createAppStore(collections, call);
  const idOnly = { projection: { _id: 1 } };
  let closed: Promise<void> | undefined;
  const close = async () => {
    await guard.release();
    await revival.close();
  };
  return {
    keys,
    teams,
    apps,
    members: createMemberStore(collections, call),
    preview: createPreviewStore(collections, call),
    sessions: createSessionStore(collections, call),
    users: createUserStore(collections, call),
    window: createWindowStore(collections, call),
    runRecords: createRunRecordStore(collections, call),
    guard,
    check: createLookUpEach({ keys, teams, apps }),
    isEmpty: () =>
      call(
        async () =>
          !(await collections.teams.findOne({}, idOnly)) && !(await collections.apps.findOne({}, idOnly)),
      ),
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}
