// How this process talks to MongoDB: a client with majority reads and writes, the read concern of
// what a right depends on, and a reconnect where the driver does not find the server again.

import { setTimeout as sleep } from "node:timers/promises";
import {
  type Db,
  type FindOneOptions,
  MongoClient,
  type MongoClientOptions,
  MongoError,
  MongoServerError,
} from "mongodb";
import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { Refusal } from "../../refusal/refusal.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import type { StoreCall } from "./store-call.ts";

export interface MongoConnection {
  readonly client: MongoClient;
  /** The database that the URI names; `keyrun` where it names none. */
  readonly db: Db;
}

/**
 * A connected client of the primary, with majority reads and writes. Throws StartRefused where the
 * URI can't be read, the server is not reached within `selectionMsMax`, or it refuses the login.
 * The error's text never holds the URI.
 */
export async function connectMongo(
  uri: string,
  { selectionMsMax, socketMsMax }: { readonly selectionMsMax: number; readonly socketMsMax: number },
): Promise<MongoConnection> {
  const client = createClient(uri, {
    appName: "keyrun",
    readPreference: "primary",
    readConcern: { level: "majority" },
    writeConcern: { w: "majority", journal: true },
    retryReads: true,
    retryWrites: true,
    ignoreUndefined: false,
    maxPoolSize: bounds.storeConnectionsMax,
    minPoolSize: 0,
    waitQueueTimeoutMS: socketMsMax,
    connectTimeoutMS: bounds.storeConnectMsMax,
    serverSelectionTimeoutMS: selectionMsMax,
    socketTimeoutMS: socketMsMax,
  });
  try {
    await client.connect();
    const db = client.db(namesDatabase(uri) ? undefined : "keyrun");
    await db.command({ ping: 1 });
    return { client, db };
  } catch (cause) {
    await client.close();
    throw mongoRefusal(client, cause);
  }
}

function createClient(uri: string, options: MongoClientOptions): MongoClient {
  try {
    const client = new MongoClient(uri, options);
    // The pool reads this option, but the driver takes it from no caller.
    Object.assign(client.options, { minPoolSizeCheckFrequencyMS: bounds.storePoolLookMs });
    return client;
  } catch {
    // The driver's own text may quote the URI, which holds a password, so it is not passed on.
    throw new StartRefused(
      "KEYRUN_MONGODB_URI can't be read. It should look like mongodb://user:password@host:27017/keyrun, with special characters of the password percent-encoded.",
    );
  }
}

function namesDatabase(uri: string): boolean {
  return /^[a-z+]+:\/\/[^/?]+\/[^?]/.test(uri);
}

/** The refusal of a start because of MongoDB's answer; other errors as they are. */
export function mongoRefusal(client: MongoClient, cause: unknown): unknown {
  if (!(cause instanceof MongoError)) return cause;
  const hosts = hostsOf(client);
  const problem =
    cause instanceof MongoServerError
      ? `MongoDB at ${hosts} refused the connection (${cause.codeName ?? cause.code}). Check the user, password and rights in KEYRUN_MONGODB_URI.`
      : `MongoDB at ${hosts} can't be reached. Check that it runs, and KEYRUN_MONGODB_URI.`;
  return new StartRefused(problem, { cause });
}

/** The refusal of a start where the server is too slow, or stopped answering. */
export function mongoTooSlow(client: MongoClient): StartRefused {
  return new StartRefused(
    `MongoDB at ${hostsOf(client)} can't be reached in time. Check that it runs well, and KEYRUN_MONGODB_URI.`,
  );
}

function hostsOf({ options }: MongoClient): string {
  return options.srvHost ?? options.hosts.join(", ");
}

/** How a record is read that a right depends on. Without options: the client's majority read. */
export type ReadConcernOptions = Pick<FindOneOptions, "readConcern" | "maxTimeMS">;

/**
 * The reads of one instance of a fleet. A change of rights is written by one instance and told to
 * the others, whose next read must see it. A majority read need not: a primary may lag behind what
 * it has acknowledged, and a deposed one does not know of it. The protocol's proof therefore asks
 * for a read with a causal token; a linearizable read by `_id` promises the same without one, and
 * also where the token would have been lost with a connection. A server that is no replica set has
 * one node, whose majority reads are linearizable.
 */
export async function readConcernOf(
  db: Db,
  { callMsMax }: { readonly callMsMax: number },
): Promise<ReadConcernOptions> {
  const { setName, msg } = await db.command({ hello: 1 });
  if (typeof setName !== "string" && msg !== "isdbgrid") return {};
  // Without a majority such a read would wait for ever.
  return { readConcern: { level: "linearizable" }, maxTimeMS: callMsMax };
}

/** Reconnects the driver where it does not do so by itself. */
export interface DriverReconnect {
  /** Wraps the call. Where every call was UNAVAILABLE for `afterMs`, the client connects anew. */
  watch(call: StoreCall): StoreCall;
  /** Closes the client for good. */
  close(): Promise<void>;
}

/**
 * The driver reconnects by itself, but not always. Version 7.9.0 waits for ever for the "drain" of
 * a socket that it wrote to between the socket's end and its "close". Where that socket is the
 * monitor's, the client never looks for the server again; this happens with a server that is polled
 * and ends all its connections at once. A client that is closed and connected again does find the
 * server.
 */
export function createDriverReconnect(
  client: MongoClient,
  { clock, afterMs }: { readonly clock: Clock; readonly afterMs: number },
): DriverReconnect {
  let failingSinceMs: number | undefined;
  let reconnecting: Promise<void> | undefined;
  let closed = false;

  async function reconnect(): Promise<void> {
    for (let connected = false; !connected && !closed; ) {
      await client.close().catch(() => {});
      connected = await client.connect().then(
        () => true,
        () => false,
      );
      // Pauses before it tries again, in case the server refuses at once.
      if (!connected && !closed) await sleep(pauseMs, undefined, { ref: false });
    }
    failingSinceMs = undefined;
    reconnecting = undefined;
  }

  function noteFailure(): void {
    const nowMs = clock.monotonicMs();
    failingSinceMs ??= nowMs;
    if (!closed && nowMs - failingSinceMs >= afterMs) reconnecting ??= reconnect();
  }

  return {
    watch: (call) => async (work) => {
      try {
        const result = await call(work);
        failingSinceMs = undefined;
        return result;
      } catch (thrown) {
        if (thrown instanceof Refusal && thrown.reason === "UNAVAILABLE") noteFailure();
        else failingSinceMs = undefined;
        throw thrown;
      }
    },
    async close() {
      closed = true;
      await reconnecting;
      await client.close();
    },
  };
}

const pauseMs = 100;
