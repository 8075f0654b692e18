import type { Db } from "mongodb";
import { bounds } from "../../bounds.ts";
import {
  type AloneParts,
  awaitOthers,
  type InstanceGuard,
  registerBesideNoLoneInstance,
  serveAlone,
} from "../../fleet/alone.ts";
import type { ControlStore } from "../../fleet/control-store.ts";
import { createLookUpEach, type FleetStore, type Stores } from "../stores.ts";
import { createAppStore } from "./app-store.ts";
import { createAuditStore } from "./audit-store.ts";
import {
  connectMongo,
  createDriverReconnect,
  type DriverReconnect,
  type ReadConcernOptions,
  readConcernOf,
} from "./connection.ts";
import { createControlStore } from "./control-store.ts";
import { type Collections, collectionsOf } from "./documents.ts";
import { createKeyStore } from "./key-store.ts";
import { createLockTeam } from "./lock.ts";
import { createQuotaStore } from "./quota-store.ts";
import { createRunStore } from "./run-store.ts";
import { prepareDatabase, requireWhole } from "./schema.ts";
import { createServiceTokenStore } from "./service-token-store.ts";
import { createSessionStore, createUserStore } from "./session-store.ts";
import { createStoreCall, repeatOnDuplicate, type StoreCall, whileHolding } from "./store-call.ts";
import { createMemberStore, createPreviewStore, createTeamStore } from "./team-store.ts";
import { createUsageStore } from "./usage-store.ts";
import { createWithEvent } from "./with-event.ts";

export interface MongoStoresParts extends AloneParts {
  /** May hold a password, so it never appears in a message. */
  readonly uri: string;
  /** How long to wait for the server at the start; `storeStartMsMax` where it is absent. */
  readonly startMsMax?: number;
  /**
   * How long the store may be out of reach before the client connects anew; `storeReconnectMs`
   * where it is absent.
   */
  readonly reconnectMs?: number;
  /** How long one operation may take; `storeTimeoutMs` where it is absent. */
  readonly callMsMax?: number;
  /** Serve the database together with others, and not alone. */
  readonly fleet?: boolean;
  /** Called where the server is no replica set: what it has acknowledged may be lost with it. */
  readonly onNoReplicaSet?: (() => void) | undefined;
}

/**
 * Opens the stores in MongoDB, and makes the indexes that are missing. They are for this instance
 * alone, or for one of a fleet: then it may serve only while it is registered in `fleet.control`.
 * Throws StartRefused where the server can't be reached, another instance serves the database and
 * the two may not serve it together, or a Keyrun of another schema wrote it, and UNAVAILABLE where
 * the server fails meanwhile.
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
    const afterMs = parts.reconnectMs ?? bounds.storeReconnectMs;
    const reconnect = createDriverReconnect(serving.client, { clock: parts.clock, afterMs });
    closers.push(() => reconnect.close());
    const call = reconnect.watch(createStoreCall(callMsMax));
    const served = {
      collections: collectionsOf(serving.db),
      call,
      readOptions: await call(() => readConcernOf(serving.db, { callMsMax })),
    };
    if (served.readOptions.readConcern === undefined) parts.onNoReplicaSet?.();
    const { guard, control, readOptions }: Serving = parts.fleet
      ? await serveInFleet(parts, served)
      : { guard: await serveAlone(createControlStore(served.collections, served), parts), readOptions: {} };
    closers.push(() => guard.release());
    const prepare = createStoreCall(bounds.storePrepareMsMax);
    await prepare(async () => {
      await requireWhole(collectionsOf(preparing.db));
      await prepareDatabase(collectionsOf(preparing.db));
    });
    await preparing.client.close();
    const guarded = whileHolding(guard, call);
    const lockTeam = createLockTeam(collectionsOf(serving.db), {
      clock: parts.clock,
      newIncarnation: parts.newIncarnation,
      call: guarded,
      readOptions,
    });
    const fleet = control && { id: await fleetIdOf(served, parts), control, lockTeam };
    const reads = { readOptions, linearizable: served.readOptions };
    return storesOf(serving.db, { guard, reconnect, call: guarded, reads, fleet });
  } catch (thrown) {
    for (const close of closers.reverse()) await close();
    throw thrown;
  }
}

interface Served {
  readonly collections: Collections;
  readonly call: StoreCall;
  readonly readOptions: ReadConcernOptions;
}

interface Serving {
  readonly guard: InstanceGuard;
  readonly readOptions: ReadConcernOptions;
  readonly control?: ControlStore;
}

async function serveInFleet(parts: MongoStoresParts, served: Served): Promise<Serving> {
  const { collections, call, readOptions } = served;
  const control = createControlStore(collections, served);
  await awaitOthers(control, { ...parts, alone: false });
  const { register } = registerBesideNoLoneInstance(control, () =>
    call(() => requireWhole(collections, readOptions)),
  );
  return { guard: untilReleased(), readOptions, control: { ...control, register } };
}

/** The lease in the control document says whether an instance of a fleet may serve. */
function untilReleased(): InstanceGuard {
  let released = false;
  return {
    isValid: () => !released,
    async release() {
      released = true;
    },
  };
}

/** The first instance gives it. In a backup it goes with the data, so a restored fleet keeps it. */
async function fleetIdOf(
  { collections: { meta }, call }: Served,
  { newIncarnation }: MongoStoresParts,
): Promise<string> {
  const only = { _id: { $eq: "fleet" } };
  const fleetId = newIncarnation().replaceAll("-", "").slice(0, fleetIdLength);
  const first = { $setOnInsert: { version: 1, fleetId } };
  const options = { upsert: true, returnDocument: "after" } as const;
  const document = await call(() => repeatOnDuplicate(() => meta.findOneAndUpdate(only, first, options)));
  return document?.fleetId ?? fleetId;
}

const fleetIdLength = 12;

function storesOf(
  db: Db,
  parts: {
    readonly guard: InstanceGuard;
    readonly reconnect: DriverReconnect;
    readonly call: StoreCall;
    readonly reads: { readonly readOptions: ReadConcernOptions; readonly linearizable: ReadConcernOptions };
    readonly fleet: FleetStore | undefined;
  },
): Stores {
  const { guard, reconnect, call, reads, fleet } = parts;
  const collections = collectionsOf(db);
  const { readOptions, linearizable } = reads;
  const audit = createAuditStore(collections, call);
  const withEvent = createWithEvent(audit, linearizable);
  const keys = createKeyStore(collections, call, withEvent, readOptions);
  const teams = createTeamStore(collections, call, withEvent, readOptions);
  const apps = createAppStore(collections, call, withEvent, readOptions);
  const idOnly = { projection: { _id: 1 } };
  let closed: Promise<void> | undefined;
  const close = async () => {
    await guard.release();
    await reconnect.close();
  };
  return {
    keys,
    teams,
    apps,
    members: createMemberStore(collections, call, withEvent, readOptions),
    preview: createPreviewStore(collections, call, withEvent, readOptions),
    sessions: createSessionStore(collections, call, withEvent, readOptions),
    users: createUserStore(collections, call, withEvent, readOptions),
    serviceTokens: createServiceTokenStore(collections, call, withEvent, readOptions),
    audit,
    runs: createRunStore(collections, call),
    usage: createUsageStore(collections, call),
    quotas: createQuotaStore(collections, call, withEvent),
    guard,
    ...(fleet && { fleet }),
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
