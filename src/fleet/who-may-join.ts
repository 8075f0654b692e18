/**
 * What instances must have in common to serve one store together, and the words for one that may
 * not join.
 */

import { createHash } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { Config } from "../settings/config.ts";
import type { ControlStore, InstanceFacts, LeaseRecord } from "./control-store.ts";
import { type FleetTimes, lapseMsOf } from "./lease.ts";
import { awaitLeasesGone, type Obstacle } from "./lease-observations.ts";

/**
 * Says in words why an instance may not join the others, which joined before it; undefined where it
 * may. It may not where that would break a promise of the others. Of two instances that can't serve
 * together, the newcomer yields.
 */
export function refusalToJoin(own: InstanceFacts, others: readonly InstanceFacts[]): string | undefined {
  const problems = others.map((other) => problemBetween(own, other));
  const problem = others.length < bounds.controlLeasesMax ? problems.find(isGiven) : tooMany;
  return problem && `This Keyrun may not join the fleet of this database: ${problem}`;
}

const isGiven = (problem: string | undefined) => problem !== undefined;
const tooMany = `it has ${bounds.controlLeasesMax} instances, and no more may join. Stop one of them first.`;

function problemBetween(own: InstanceFacts, other: InstanceFacts): string | undefined {
  if (own.protocol < other.protocol || own.schema < other.schema) {
    return "an instance of it is of a newer version, whose changes this one would not understand. Start the newer version here too.";
  }
  if (own.serviceTokenMark !== other.serviceTokenMark) {
    return "its instances have another service token. Give all of them the same KEYRUN_SERVICE_TOKEN.";
  }
  if (own.keyPrefix !== other.keyPrefix) {
    return `its keys begin with ${other.keyPrefix}_, and those of this one with ${own.keyPrefix}_. Give all of them the same KEYRUN_KEY_PREFIX.`;
  }
  return problemOfSecrets(own.secretVersions, other.secretVersions);
}

/** An instance makes keys with its newest secret, and every other must be able to read them. */
function problemOfSecrets(own: readonly string[], other: readonly string[]): string | undefined {
  const [ownNewest, otherNewest] = [own[0], other[0]];
  if (otherNewest !== undefined && !own.includes(otherNewest)) {
    return `its instances make keys with a service secret that is not here (version ${otherNewest}). Add it to what KEYRUN_SECRET or KEYRUN_SECRET_FILE holds, after the others.`;
  }
  if (ownNewest !== undefined && !other.includes(ownNewest)) {
    return `the newest service secret here (version ${ownNewest}) is not known to all of its instances, which could not read the keys made here. Put it last here and on every instance, and first only when all have it.`;
  }
  return undefined;
}

/**
 * Says who is in the way of an instance, alone or of a fleet, that wants to serve the store of
 * these leases; undefined where nobody is. One that serves alone can't serve with a fleet: it tells
 * nobody of the rights that it takes away, and counts limits by itself.
 */
export function obstacleToServe(alone: boolean, leases: readonly LeaseRecord[]): Obstacle | undefined {
  const isOneAlone = leases.some(({ facts }) => facts.alone);
  if (!alone) return isOneAlone ? loneInstanceServes : undefined;
  if (isOneAlone) return anotherServes;
  return leases.length === 0 ? undefined : fleetServes(leases.length);
}

function anotherServes(seconds: number): string {
  return `Another Keyrun serves this MongoDB database and was active during the last ${seconds} s. Only one may serve it: stop the other one, or set KEYRUN_MONGODB_URI to another database.`;
}

/** Says why an instance can't serve alone beside so many of a fleet. */
export function fleetServes(instances: number): Obstacle {
  const has = instances === 1 ? "1 instance was" : `${instances} instances were`;
  return (seconds) =>
    `A fleet serves this MongoDB database, of which ${has} active during the last ${seconds} s. Set KEYRUN_REDIS_URL to join it, or stop it, or set KEYRUN_MONGODB_URI to another database.`;
}

/** Says why a fleet's instance can't serve beside one alone that was active in these seconds. */
export function loneInstanceServes(seconds: number): string {
  return `A Keyrun without KEYRUN_REDIS_URL serves this MongoDB database alone and was active during the last ${seconds} s. Stop it, or start it again with KEYRUN_REDIS_URL, or set KEYRUN_MONGODB_URI to another database.`;
}

/**
 * Says in words why an instance may not start that shares limits in the Redis of this mark: each of
 * two Redises would count on its own, so each team would get its limit twice.
 */
export function refusalOfRedis(redisMark: string | undefined, others: readonly LeaseRecord[]) {
  const isElsewhere = ({ limits }: LeaseRecord) =>
    typeof limits?.redisMark === "string" && limits.redisMark !== redisMark;
  const other = others.find(isElsewhere);
  // Without a mark this instance counts in no Redis now. It compares when it does.
  if (!other || redisMark === undefined) return undefined;
  const { facts, limits } = other;
  const who = facts.address === null ? "an instance of it" : `its instance at ${facts.address}`;
  return `This Keyrun may not join the fleet of this database: ${who} shares limits in another Redis (of mark ${limits?.redisMark}) than that of KEYRUN_REDIS_URL here (of mark ${redisMark}). Give all of them the same KEYRUN_REDIS_URL.`;
}

/**
 * The facts of the instances that joined before the one with this id, or of all others. One
 * that comes back after its removal joins anew: instances that joined meanwhile did not check it.
 */
export function factsBefore(leases: readonly LeaseRecord[], ownId?: string): InstanceFacts[] {
  return leasesBefore(leases, ownId).map(({ facts }) => facts);
}

/** The records of the same instances. */
export function leasesBefore(leases: readonly LeaseRecord[], ownId?: string): LeaseRecord[] {
  const ownOrder = leases.find(({ id }) => id === ownId)?.order ?? Number.POSITIVE_INFINITY;
  return leases.filter(({ order }) => order < ownOrder);
}

/**
 * Waits while this instance may not join, until the instances in its way have left or have lapsed.
 * Without it, records that a crash left would keep out an instance with other settings for ever.
 * Throws StartRefused, with the words of `refusalToJoin`, as soon as one shows that it lives.
 */
export async function awaitMayJoin(parts: {
  readonly control: ControlStore;
  readonly facts: InstanceFacts;
  /** The mark of its Redis. */
  readonly redisMark: string | undefined;
  readonly clock: Clock;
  readonly times: FleetTimes;
  readonly events: { readonly onWaiting: (waitMsMax: number) => void };
  readonly signal?: AbortSignal | undefined;
}): Promise<void> {
  const { facts, redisMark, times } = parts;
  const lapseMs = lapseMsOf(times);
  await awaitLeasesGone({
    ...parts,
    refusesAtOnce: true,
    times: { beatMs: times.beatMs, lapseMs, waitMsMax: Math.ceil(lapseMs + lapseSlackMs) },
    obstacle(leases) {
      const words = refusalToJoin(facts, factsBefore(leases)) ?? refusalOfRedis(redisMark, leases);
      return obstacleToServe(facts.alone, leases) ?? (words === undefined ? undefined : () => words);
    },
  });
}

/** The time of the reads before and after a lapse. */
const lapseSlackMs = 1_000;

/** The facts of an instance with these settings. */
export function factsFrom(
  { keyPrefix, advertiseAddress }: Pick<Config, "keyPrefix" | "advertiseAddress">,
  {
    serviceToken,
    ...known
  }: Pick<InstanceFacts, "version" | "schema" | "secretVersions"> & { readonly serviceToken: string },
): InstanceFacts {
  return {
    ...known,
    protocol: fleetProtocol,
    alone: false,
    keyPrefix,
    serviceTokenMark: serviceTokenMark(serviceToken),
    address: advertiseAddress ?? null,
  };
}

/** Raised where instances of two versions could not keep a promise to each other. */
export const fleetProtocol = 1;

/**
 * A mark by which two instances see that they have the same service token. It is made of the token
 * alone, so it stays while the service's secrets change.
 */
export function serviceTokenMark(token: string): string {
  return createHash("sha256").update("keyrun-service-token:").update(token).digest("hex").slice(0, 16);
}
