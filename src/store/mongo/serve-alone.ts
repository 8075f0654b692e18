import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { awaitNoFleet } from "../../fleet/alone-or-fleet.ts";
import {
  type InstanceEvents,
  type InstanceGuard,
  type InstanceTimes,
  takeInstance,
} from "../../fleet/instance-guard.ts";
import type { FreshRead } from "./connection.ts";
import { createControlStore } from "./control-store.ts";
import type { Collections } from "./documents.ts";
import { createInstanceRecordStore } from "./instance-record.ts";
import type { StoreCall } from "./store-call.ts";

export interface AloneParts {
  readonly clock: Clock;
  /** A new UUID each time. */
  readonly newIncarnation: () => string;
  readonly events: InstanceEvents;
  /** Ends the wait for another instance to leave. */
  readonly signal?: AbortSignal | undefined;
  /** The times in `bounds` where it is absent. */
  readonly times?: InstanceTimes;
}

export const instanceTimes: InstanceTimes = {
  renewMs: bounds.instanceRenewMs,
  holdMs: bounds.instanceHoldMs,
  lapseMs: bounds.instanceLapseMs,
  waitMsMax: bounds.instanceWaitMsMax,
};

/**
 * Takes the database for this process alone, until the guard is released. Throws StartRefused where
 * another instance or a fleet still serves it after `waitMsMax`.
 */
export async function serveAlone(
  parts: AloneParts,
  {
    collections,
    call,
    freshRead,
  }: { readonly collections: Collections; readonly call: StoreCall; readonly freshRead: FreshRead },
): Promise<InstanceGuard> {
  const waiting = { times: instanceTimes, ...parts };
  const control = createControlStore(collections, { call, freshRead });
  // The first look is there so that a start by mistake disturbs no instance of the fleet, and the
  // second to see a fleet that began during the first.
  await awaitNoFleet({ ...waiting, control });
  const guard = await takeInstance({ ...waiting, records: createInstanceRecordStore(collections, call) });
  try {
    await awaitNoFleet({ ...waiting, control });
  } catch (thrown) {
    await guard.release();
    throw thrown;
  }
  return guard;
}
