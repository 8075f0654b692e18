import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import type { ReadConcernOptions } from "./connection.ts";
import type { Collections } from "./documents.ts";
import { createLockRecords, type Lock, type LockTimes, takeLock } from "./lock.ts";
import type { StoreCall } from "./store-call.ts";

/** `FleetStore.lockTeam` by a lock for each id. One that a crash left lapses. */
export function createLockTeam(
  collections: Collections,
  parts: {
    readonly clock: Clock;
    readonly newIncarnation: () => string;
    readonly call: StoreCall;
    readonly readOptions: ReadConcernOptions;
    readonly times?: LockTimes;
  },
): (teamId: string) => Promise<Lock> {
  const { clock, newIncarnation, times = turnTimes } = parts;
  return (teamId) =>
    takeLock(createLockRecords(collections, `team/${teamId}`, parts), { clock, newIncarnation, times });
}

const turnTimes: LockTimes = {
  renewMs: bounds.teamMutexRenewMs,
  lockMs: bounds.teamMutexHoldMs,
  lapseMs: bounds.teamMutexLapseMs,
  waitMsMax: bounds.teamMutexWaitMsMax,
};
