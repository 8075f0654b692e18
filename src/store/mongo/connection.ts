/**
 * How this process talks to MongoDB: a client with majority reads and writes, the read concern of
 * what a right depends on, and a reconnect where the driver does not find the server again.
 */

import { setTimeout as sleep } from "node:timers/promises";
import {
  type Db,
  type FindOneOptions,
  MongoClient,
  type MongoClientOptions,
  MongoError,
  MongoServerError,
  MongoServerSelectionError,
} from "mongodb";
import type { Clock } from "../../base/clock.ts";
import { innermostCause } from "../../base/innermost-cause.ts";
import { trustSystemRoots } from "../../base/trusted-roots.ts";
import { bounds } from "../../bounds.ts";
import { Refusal } from "../../refusal/refusal.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { mongodbOptions } from "../../settings/mongodb-uri.ts";
import type { StoreCall } from "./store-call.ts";

export interface MongoConnection {
  readonly client: MongoClient;
  /** The database that the URI names; `keyrun` where it names none. */
  readonly db: Db;
}

/**
 * A connected client of the primary, with majority reads and writes, and otherwise as the options
 * of the URI say; of two time-outs, the shorter one counts. Throws StartRefused where the URI can't
 * be used, the server is not reached within `selectionMsMax`, or it refuses the login. The error's
 * text never holds the URI.
 */
export async function connectMongo(uri: string, bounded: CallBounds): Promise<MongoConnection> {
  const client = createClient(uri, bounded);
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

interface CallBounds {
  readonly selectionMsMax: number;
  readonly socketMsMax: number;
}

function createClient(uri: string, bounded: CallBounds): MongoClient {
  try {
    const client = new MongoClient(uri, clientOptions(uri, bounded));
    if (client.options.tls) trustSystemRoots();
    return client;
  } catch (thrown) {
    // The driver's own text may quote the URI, which holds a password, so it is not passed on.
    const said = thrown instanceof Error ? thrown.message : "";
    const option = [...mongodbOptions(uri).keys()].find((name) => said.toLowerCase().includes(name));
    throw new StartRefused(
      option === undefined
        ? "KEYRUN_MONGODB_URI can't be read. It should look like mongodb://user:password@host:27017/keyrun, with special characters of the password percent-encoded."
        : `KEYRUN_MONGODB_URI has a value of the option ${option} that can't be used: correct or remove it.`,
    );
  }
}

/** Options that are passed here count, and not those of the URI. */
function clientOptions(uri: string, { selectionMsMax, socketMsMax }: CallBounds): MongoClientOptions {
  const given = mongodbOptions(uri);
  const shorter = (name: string, msMax: number) => {
    const ms = Number(given.get(name.toLowerCase()));
    // 0 is none.
    return { [name]: ms > 0 ? Math.min(ms, msMax) : msMax };
  };
  const byDefault = { appName: "keyrun", maxPoolSize: bounds.storeConnectionsMax, minPoolSize: 0 };
  const absent = Object.entries(byDefault).filter(([name]) => !given.has(name.toLowerCase()));
  return {
    ...Object.fromEntries(absent),
    ...shorter("waitQueueTimeoutMS", socketMsMax),
    ...shorter("connectTimeoutMS", bounds.storeConnectMsMax),
    ...shorter("serverSelectionTimeoutMS", selectionMsMax),
    ...shorter("socketTimeoutMS", socketMsMax),
    readPreference: "primary",
    readConcern: { level: "majority" },
    writeConcern: { w: "majority", journal: true },
    ignoreUndefined: false,
  };
}

function namesDatabase(uri: string): boolean {
  return /^[a-z+]+:\/\/[^/?]+\/[^?]/.test(uri);
}

/** The refusal of a start because of MongoDB's answer or silence; other errors as they are. */
export function mongoRefusal(client: MongoClient, cause: unknown): unknown {
  // The look-up of a server's name, and the read of a file that the URI names, fail with errors of
  // the system.
  if (!(cause instanceof MongoError || (cause instanceof Error && "syscall" in cause))) return cause;
  const hosts = hostsOf(client);
  const problem =
    cause instanceof MongoServerError
      ? `MongoDB at ${hosts} refused the connection (${cause.codeName ?? cause.code}). Check the user, password and rights in KEYRUN_MONGODB_URI; special characters of the password must be percent-encoded there.`
      : `MongoDB at ${hosts} can't be reached: ${causeOf(cause)}. Check that it runs, and KEYRUN_MONGODB_URI.`;
  return new StartRefused(problem, { cause });
}

/** What each server said, or why none of those that answer is the one to talk to. */
function causeOf(thrown: Error): string {
  if (!(thrown instanceof MongoServerSelectionError) || !thrown.reason) return innermostCause(thrown);
  const { servers, setName } = thrown.reason;
  const errors = [...servers.values()].flatMap(({ error }) => error ?? []);
  if (errors.length > 0) return innermostCause(new AggregateError(errors));
  if (servers.size === 0 && setName !== null) return `no server there is of the replica set ${setName}`;
  return innermostCause(thrown);
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
