import {
  MongoBulkWriteError,
  MongoClientClosedError,
  MongoError,
  MongoNetworkError,
  MongoNotConnectedError,
  MongoServerClosedError,
  MongoServerError,
  MongoServerSelectionError,
  MongoStalePrimaryError,
  MongoTopologyClosedError,
  MongoWriteConcernError,
} from "mongodb";
import { fail, unavailable } from "../../error.ts";
import type { InstanceGuard } from "../../fleet/instance-guard.ts";

/** Does one operation on the store, within the time that the store has. */
export type StoreCall = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Calls that end within `timeoutMs`: with what the work gives, or with UNAVAILABLE where the store was out of
 * reach or too slow; a write may then still take effect. The driver has no such bound of its own for all of an
 * operation, its wait for a connection and its retries included.
 */
export function createStoreCall(timeoutMs: number): StoreCall {
  return async (work) => {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(unavailable({ cause: new Error(`MongoDB took over ${timeoutMs} ms`) })),
        timeoutMs,
      );
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
 * Calls of the one instance that may serve the store: UNAVAILABLE once it does not hold. Looked at again after the
 * work, for a process may be frozen in between: then a successor may serve, which does not know of the write.
 */
export function whileHolding(guard: InstanceGuard, call: StoreCall): StoreCall {
  const check = () => {
    if (!guard.holds()) throw unavailable({ cause: new Error("this instance no longer holds the store") });
  };
  return async (work) => {
    check();
    const result = await call(work);
    check();
    return result;
  };
}

/** Whether a plain unique index, or `_id`, has the value already. */
export function isDuplicate(thrown: unknown): boolean {
  return thrown instanceof MongoServerError && thrown.code === 11_000;
}

/**
 * Does an upsert that changes nothing where the document is there. Of several at once MongoDB may tell all but
 * one that they are duplicates; once more, they find it.
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

/** A bulk write wraps also what is no answer of the server, as a lost connection. */
function unwrap(thrown: unknown): unknown {
  if (!(thrown instanceof MongoBulkWriteError)) return thrown;
  const wrapped: unknown = thrown.errorResponse;
  return wrapped instanceof MongoError ? wrapped : thrown;
}

const outOfDiskSpace = 14_031;

/** Server errors that say nothing about the request: no primary, shutting down, no majority, too slow. */
const passingCodes: ReadonlySet<unknown> = new Set([
  6, 7, 50, 64, 79, 89, 91, 100, 189, 202, 262, 9_001, 10_058, 10_107, 11_600, 11_602, 13_435, 13_436,
]);

const passingErrors = [
  MongoNetworkError,
  MongoServerSelectionError,
  MongoNotConnectedError,
  MongoTopologyClosedError,
  MongoClientClosedError,
  MongoServerClosedError,
  MongoStalePrimaryError,
  MongoWriteConcernError,
];

function isOutOfReach(error: MongoError): boolean {
  return (
    passingErrors.some((kind) => error instanceof kind) ||
    passingCodes.has(error.code) ||
    // The driver does not export this class.
    error.name === "MongoWaitQueueTimeoutError" ||
    error.hasErrorLabel("RetryableWriteError")
  );
}
