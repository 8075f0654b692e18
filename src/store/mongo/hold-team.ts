import { bounds } from "../../bounds.ts";
import { type InstanceGuard, type InstanceGuardParts, takeInstance } from "../../fleet/instance-guard.ts";
import { unavailable } from "../../refusal/refusal.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import type { Collections } from "./documents.ts";
import type { FreshRead } from "./connection.ts";
import { createInstanceRecordStore } from "./instance-record.ts";
import type { StoreCall } from "./store-call.ts";

/**
 * `FleetStore.holdTeam` by a record for each id that is held, as the one record of an instance that
 * serves alone. A record that a crash left lapses.
 */
export function createHoldTeam(
  collections: Collections,
  parts: Pick<InstanceGuardParts, "clock" | "newIncarnation"> & {
    readonly call: StoreCall;
    readonly freshRead: FreshRead;
    readonly times?: InstanceGuardParts["times"];
  },
): (teamId: string) => Promise<InstanceGuard> {
  const { clock, newIncarnation, call, freshRead, times = turnTimes } = parts;
  return async (teamId) => {
    const records = createInstanceRecordStore(collections, call, { freshRead, id: `team/${teamId}` });
    try {
      return await takeInstance({ records, clock, newIncarnation, times, events: silent });
    } catch (cause) {
      throw cause instanceof StartRefused ? unavailable({ cause }) : cause;
    }
  };
}

const turnTimes = {
  renewMs: bounds.teamMutexRenewMs,
  holdMs: bounds.teamMutexHoldMs,
  lapseMs: bounds.teamMutexLapseMs,
  waitMsMax: bounds.teamMutexWaitMsMax,
};

/** What fails is thrown to the caller of the work in the turn. */
const silent = { onWaiting: () => {}, onRenewalFailed: () => {}, onLost: () => {} };
