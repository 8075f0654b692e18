import { randomUUID } from "node:crypto";
import { systemClock } from "#src/base/clock.ts";
import type { InstanceEvents, InstanceTimes } from "#src/fleet/alone.ts";
import { fleetTimes } from "#src/fleet/lease.ts";
import { type MongoStoresParts, openMongoStores } from "#src/store/mongo/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";

/** Times with which a busy machine keeps its lease, and a second start waits briefly. */
export const steadyInstanceTimes: InstanceTimes = {
  ...fleetTimes,
  leaseMs: 60_000,
  lapseMs: 120_000,
  waitMsMax: 500,
};

/** Times so short that a test can wait for them. */
export const shortInstanceTimes: InstanceTimes = {
  ...steadyInstanceTimes,
  beatMs: 50,
  leaseMs: 2_000,
  lapseMs: 3_000,
  waitMsMax: 10_000,
};

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
