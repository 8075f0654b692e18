import { type Db, MongoClient, type MongoClientOptions, MongoError, MongoServerError } from "mongodb";
import { bounds } from "../../bounds.ts";
import { StartRefused } from "../../refusal/start-refused.ts";

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
