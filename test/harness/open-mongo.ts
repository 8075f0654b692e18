import { randomUUID } from "node:crypto";
import { systemClock } from "#src/clock.ts";
import type { InstanceEvents } from "#src/fleet/instance-guard.ts";
import { type MongoStoresParts, openMongoStores } from "#src/store/mongo/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";

/** Times of the single-instance record with which no busy machine loses it, and a second start waits shortly. */
const steadyInstanceTimes = { renewMs: 50, holdMs: 60_000, lapseMs: 120_000, waitMsMax: 500 } as const;

/** Times that a test can wait for. */
export const shortInstanceTimes = { renewMs: 50, holdMs: 2_000, lapseMs: 3_000, waitMsMax: 10_000 } as const;

export const silentInstanceEvents: InstanceEvents = {
  onWaiting: () => {},
  onRenewalFailed: () => {},
  onLost: () => {},
};

/** The stores at `uri`, with the real clock and steady times. */
export function openMongoForTest(
  parts: Pick<MongoStoresParts, "uri"> & Partial<MongoStoresParts>,
): Promise<Stores> {
  return openMongoStores({
    clock: systemClock,
    newIncarnation: randomUUID,
    events: silentInstanceEvents,
    times: steadyInstanceTimes,
    // Far more than it takes even on a busy machine: where time itself is tested, the test says how much.
    callMsMax: 20_000,
    ...parts,
  });
}
