// A database is served by one instance alone, or by a fleet, and never by both: the lone one would
// not wait for the fleet when it takes a right away. Each side first writes its own record and then
// looks for the other's, so at least one of the two sees the other.

import { unavailable } from "../refusal/refusal.ts";
import { type AwaitLapseParts, awaitLeasesGone, repeatUntilFree } from "./await-lapse.ts";
import type { ControlStore } from "./control-store.ts";
import type { InstanceRecord, InstanceRecordStore } from "./instance-record-store.ts";

/**
 * Waits until no fleet serves the database: until each of its records was removed, or was seen
 * unchanged for `lapseMs` and then removed here, so that its instance can't go on if it wakes up.
 * Throws StartRefused after `waitMsMax`.
 */
export async function awaitNoFleet(
  parts: AwaitLapseParts & { readonly control: ControlStore },
): Promise<void> {
  await awaitLeasesGone({
    ...parts,
    obstacle: ({ length }) => (length === 0 ? undefined : fleetServes(length)),
  });
}

/**
 * Waits until no instance serves the database alone: until its record was removed, or was seen
 * unchanged for `lapseMs` and then removed here. Throws StartRefused after `waitMsMax`.
 */
export async function awaitNoLoneInstance(
  parts: AwaitLapseParts & { readonly records: InstanceRecordStore; readonly newIncarnation: () => string },
): Promise<void> {
  const { records, clock, times, newIncarnation } = parts;
  let seen: (InstanceRecord & { readonly sinceMs: number }) | undefined;
  await repeatUntilFree(parts, async () => {
    const sentMs = clock.monotonicMs();
    const record = await records.find();
    if (!record) return undefined;
    if (seen?.incarnation !== record.incarnation || seen.beat !== record.beat) {
      seen = { ...record, sinceMs: clock.monotonicMs() };
    } else if (sentMs - seen.sinceMs >= times.lapseMs) {
      // Replaced first, on the condition that it is still unchanged.
      const incarnation = newIncarnation();
      if (await records.replace(record, incarnation)) {
        await records.remove(incarnation);
        return undefined;
      }
    }
    return loneInstanceServes;
  });
}

/**
 * The control store of a fleet, in which an instance registers only while none serves the database
 * alone. Otherwise its record is removed again, and `register` throws UNAVAILABLE.
 * `requireServable` is called after that and throws where the database may not be served: what
 * was alone in it may have come and gone since the start, and left it unfit. Holds for every
 * registration, also of an instance that had lost its lease.
 */
export function registerBesideNoLoneInstance(
  control: ControlStore,
  records: Pick<InstanceRecordStore, "find">,
  requireServable: () => Promise<void>,
): ControlStore {
  return {
    ...control,
    async register(id, facts, limits) {
      // Most often this look is enough, and no instance sees a record that comes and goes.
      if (await records.find()) throw servedAlone();
      const view = await control.register(id, facts, limits);
      try {
        if (await records.find()) throw servedAlone();
        await requireServable();
        return view;
      } catch (thrown) {
        // Where the record can't be removed, it lapses by itself.
        await control.remove(id).catch(() => {});
        throw thrown;
      }
    },
  };
}

function servedAlone() {
  return unavailable({ cause: new Error("another Keyrun serves this database alone, without a fleet") });
}

/** Says why an instance can't serve alone beside so many of a fleet. */
export function fleetServes(instances: number) {
  const has = instances === 1 ? "1 instance was" : `${instances} instances were`;
  return (seconds: number) =>
    `A fleet serves this MongoDB database, of which ${has} active during the last ${seconds} s. Set KEYRUN_REDIS_URL to join it, or stop it, or set KEYRUN_MONGODB_URI to another database.`;
}

/** Says why a fleet's instance can't serve beside one alone that was active in these seconds. */
export function loneInstanceServes(seconds: number): string {
  return `A Keyrun without KEYRUN_REDIS_URL serves this MongoDB database alone and was active during the last ${seconds} s. Stop it, or start it again with KEYRUN_REDIS_URL, or set KEYRUN_MONGODB_URI to another database.`;
}
