import {
  MongoBulkWriteError,
  MongoClientClosedError,
  MongoError,
  MongoExpiredSessionError,
  MongoNetworkError,
  MongoNotConnectedError,
  MongoServerClosedError,
  MongoServerError,
  MongoServerSelectionError,
  MongoStalePrimaryError,
  MongoTopologyClosedError,
  MongoWriteConcernError,
} from "mongodb";
import type { InstanceGuard } from "../../fleet/alone.ts";
import { fail, unavailable } from "../../refusal/refusal.ts";

/** Does one operation on the store, within the store's time limit. */
export type StoreCall = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Calls that end within `timeoutMs`. They resolve or reject as the work does, or reject with
 * UNAVAILABLE where the store was out of reach or too slow; a write may then still take effect. The
 * driver itself has no bound for a whole operation with its wait for a connection and its retries.
 */
export function createStoreCall(timeoutMs: number): StoreCall {
  return async (work) => {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const over = () => reject(unavailable({ cause: new Error(`MongoDB took over ${timeoutMs} ms`) }));
      // Where the event loop was late, the answer may be in the socket. It is read first.
      timer = setTimeout(() => setImmediate(over), timeoutMs);
    });
    try {
      return await Promise.race([work(), late]);
    } catch (thrown) {
      throw refusalOf(thrown);
    } finally {
      clearTimeout(timer);
    }
  };
}

/**
 * Calls of the one instance that may serve the store: UNAVAILABLE, or what `lost` makes, where the
 * guard is not valid. The guard is checked again after the work, because the process may have been
 * frozen in between. A successor may then be serving, which does not know of the write.
 */
export function whileHolding(
  guard: Pick<InstanceGuard, "isValid">,
  call: StoreCall,
  lost: () => Error = () =>
    unavailable({ cause: new Error("this instance has lost its lease of the store") }),
): StoreCall {
  const check = () => {
    if (!guard.isValid()) throw lost();
  };
  return async (work) => {
    check();
    const result = await call(work);
    check();
    return result;
  };
}

/** Whether a unique index, or `_id`, has the value already. */
export function isDuplicate(thrown: unknown): boolean {
  return thrown instanceof MongoServerError && thrown.code === 11_000;
}

/**
 * Does an upsert that changes nothing where the document exists. Of several upserts at once,
 * MongoDB may reject all but one as duplicates; tried once more, they find the document.
 */
export async function repeatOnDuplicate<T>(upsert: () => Promise<T>): Promise<T> {
  try {
    return await upsert();
  } catch (thrown) {
    if (!isDuplicate(thrown)) throw thrown;
    return upsert();
  }
}

function refusalOf(thrown: unknown): unknown {
  const error = unwrap(thrown);
  if (!(error instanceof MongoError)) return thrown;
  if (error.code === outOfDiskSpace) return fail("STORE_FULL", { cause: thrown });
  return isOutOfReach(error) ? unavailable({ cause: thrown }) : thrown;
}

/** A bulk write also wraps errors that are no answer of the server, such as a lost connection. */
function unwrap(thrown: unknown): unknown {
  if (!(thrown instanceof MongoBulkWriteError)) return thrown;
  const wrapped: unknown = thrown.errorResponse;
  return wrapped instanceof MongoError ? wrapped : thrown;
}

const outOfDiskSpace = 14_031;

/**
 * Server errors that say nothing about the request: no primary, shutting down, no majority, too
 * slow.
 */
const passingCodes: ReadonlySet<unknown> = new Set([
  6, 7, 50, 64, 79, 89, 91, 100, 189, 202, 262, 9_001, 10_058, 10_107, 11_600, 11_602, 13_435, 13_436,
]);

const passingErrors = [
  MongoNetworkError,
  MongoServerSelectionError,
  MongoNotConnectedError,
  MongoTopologyClosedError,
  MongoClientClosedError,
  // No call has a session of its own: its client was closed under it.
  MongoExpiredSessionError,
  MongoServerClosedError,
  MongoStalePrimaryError,
  MongoWriteConcernError,
];

/**
 * The driver does not export these classes. The second is that of a call that waited for a
 * connection while the client was closed, as its reconnect does.
 */
const passingNames: ReadonlySet<string> = new Set(["MongoWaitQueueTimeoutError", "MongoPoolClosedError"]);

function isOutOfReach(error: MongoError): boolean {
  return (
    passingErrors.some((kind) => error instanceof kind) ||
    passingCodes.has(error.code) ||
    passingNames.has(error.name) ||
    error.hasErrorLabel("RetryableWriteError")
  );
}
