import { randomUUID } from "node:crypto";
import { systemClock } from "#src/base/clock.ts";
import type { InstanceEvents } from "#src/fleet/instance-guard.ts";
import { type MongoStoresParts, openMongoStores } from "#src/store/mongo/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";

/** Times with which a busy machine keeps its instance record, and a second start waits briefly. */
const steadyInstanceTimes = { renewMs: 50, holdMs: 60_000, lapseMs: 120_000, waitMsMax: 500 } as const;

/** Times so short that a test can wait for them. */
export const shortInstanceTimes = { renewMs: 50, holdMs: 2_000, lapseMs: 3_000, waitMsMax: 10_000 } as const;

export const silentInstanceEvents: InstanceEvents = {
  onWaiting: () => {},
  onRenewalFailed: () => {},
  onLost: () => {},
};

/** Opens the stores at `uri`, with the real clock and steady times. */
export function openMongoForTest(
  parts: Pick<MongoStoresParts, "uri"> & Partial<MongoStoresParts>,
): Promise<Stores> {
  return openMongoStores({
    clock: systemClock,
    newIncarnation: randomUUID,
    events: silentInstanceEvents,
    times: steadyInstanceTimes,
    // Far more than a call takes even on a busy machine. Tests of this timeout set their own.
    callMsMax: 20_000,
    ...parts,
  });
}
