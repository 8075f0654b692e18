/**
 * The port of what the instances of a fleet share: one control record, with their leases and the
 * last changes of rights.
 */

import type { QuotaLimit } from "../settings/config.ts";

/** What a right may depend on. */
export type SecurityKind = "key" | "service-token" | "team" | "app" | "member" | "preview" | "session";

/** A durable change that every instance must know of: copies below `version` are void. */
export interface ControlChange {
  /**
   * "plan-limits": limits or quotas of plans that were brought before are lower than those until
   * then. "run": the run in the background with this id, or with "" any, got its end by another
   * than its owner.
   */
  readonly kind: SecurityKind | "plan-limits" | "run";
  readonly id: string;
  readonly version: number;
  /** The team of a key, so that other instances can tell those who watch its keys. */
  readonly teamId?: string;
}

/** A change with its place in the order of all changes. */
export interface NumberedChange extends ControlChange {
  readonly seq: number;
}

/** How an instance counts the requests of teams now. */
export interface InstanceLimits {
  /** `shared` with the others in Redis, else as KEYRUN_LIMIT_FALLBACK says. */
  readonly mode: "shared" | "share" | "refuse";
  /** The mark of the Redis in which it counts; null where it counts in none. */
  readonly redisMark: string | null;
  /** Its share of each limit without Redis, like `1/3`; null where it has none yet. */
  readonly share: string | null;
}

/**
 * What an instance says of itself when it registers, for the others and for those that want to
 * join. Nothing in it is secret. The protocol stores it, and reads nothing but the address.
 */
export interface InstanceFacts {
  /** The version of the protocol that the instances speak with each other: `fleetProtocol`. */
  readonly protocol: number;
  /** The version of Keyrun, for people; "" of one that does not say it. */
  readonly version: string;
  /** The schema of the store that the instance knows. */
  readonly schema: number;
  /** The versions of the secrets whose keys the instance can read, newest first. */
  readonly secretVersions: readonly string[];
  /** Equal for equal service tokens, and of no use to find a strong one: `serviceTokenMark`. */
  readonly serviceTokenMark: string;
  readonly keyPrefix: string;
  /** It serves the store alone: nobody may serve beside it. */
  readonly alone: boolean;
  /** Where the other instances reach its internal listener; null: it is not nudged. */
  readonly address: string | null;
}

/** One registration of an instance. */
export interface LeaseRecord {
  /** New for every attempt to register. */
  readonly id: string;
  /** 1 at registration. Every step that extends the lease raises it by one. */
  readonly n: number;
  /** The instance acts on all changes up to this `seq`. */
  readonly ack: number;
  /** Grows with every registration, so it says who came first. */
  readonly order: number;
  readonly facts: InstanceFacts;
  /** As of its last heartbeat. */
  readonly limits?: InstanceLimits | undefined;
  /** The share of the limits that it took over from an instance that had left. */
  readonly share?: HandedShare | undefined;
}

/** The share of the limits that an instance had when it left, for another one. */
export interface HandedShare {
  /** The `order` of the instance that had the share first. Of one slot there is one share. */
  readonly slot: number;
  readonly place: number;
  readonly of: number;
}

/** The limits of plans that one instance brought, for all instances. */
export interface BroughtPlanLimits {
  /** The `order` of the instance's registration. */
  readonly order: number;
  /** Requests a minute of each plan. */
  readonly limits: Readonly<Record<string, number>>;
  /** The quota of each plan that has one. */
  readonly quotas: Readonly<Record<string, QuotaLimit>>;
}

/** The whole control record as it was right after one step. */
export interface ControlView {
  /** The `seq` of the newest change; 0 where there was none. */
  readonly seq: number;
  /** The newest changes, at most 256, by ascending `seq` without a gap, up to `seq`. */
  readonly recent: readonly NumberedChange[];
  /** By ascending `order`. */
  readonly leases: readonly LeaseRecord[];
  /** They stay when their instance leaves. Absent: no instance has brought any yet. */
  readonly planLimits?: BroughtPlanLimits;
  /** Shares of instances that left, until they are taken over. Each slot once. Absent: none. */
  readonly vacant?: readonly HandedShare[];
}

/** The places that a push gave to its changes. */
export interface PushedSeqs {
  readonly first: number;
  readonly last: number;
}

/** What a heartbeat says. */
export interface BeatStep {
  readonly ack: number;
  readonly nSeen: number;
  readonly limits?: InstanceLimits;
}

/**
 * The one control record of a fleet. Each method is one atomic and durable step on it, and all
 * steps of all instances form one order. An answer tells the state right after its step. A step
 * whose answer was lost may have happened, may still happen later, and may be done twice by a
 * driver that repeats it. Throws as `KeyStore` does.
 */
export interface ControlStore {
  /** Linearizable: it shows every step that was acknowledged before it was called. */
  read(): Promise<ControlView>;
  /**
   * Adds a record under a new id, with n 1, ack at the newest `seq`, and the next order. Call
   * it with one id once only, whatever became of the first call. A record that exists under the id
   * stays as it is.
   */
  register(id: string, facts: InstanceFacts, limits?: InstanceLimits): Promise<ControlView>;
  /**
   * Raises the record's n by one, its ack to `ack` if that is higher, and notes the limits, if
   * any. Undefined where the record is gone, or an older one, whose n is below `nSeen`, as
   * after the restore of a backup; it then changes nothing.
   */
  beat(id: string, step: BeatStep): Promise<ControlView | undefined>;
  /** Gives each change the next `seq`, in the given order, all in one step. */
  push(changes: readonly ControlChange[]): Promise<{ readonly seqs: PushedSeqs; readonly view: ControlView }>;
  /**
   * Makes the limits of plans those that hold, unless an instance with a later order has brought
   * its own. Returns those that held right before; undefined where there were none, or the later
   * ones stay. The caller that lowers one announces "plan-limits" after it.
   */
  bringPlanLimits(brought: BroughtPlanLimits): Promise<BroughtPlanLimits | undefined>;
  /** Removes the record if it is there. */
  remove(id: string): Promise<void>;
  /** Removes the record if it is there, and makes its share vacant in the same step. */
  vacate(id: string, share: HandedShare): Promise<void>;
  /**
   * Gives a vacant share to the record; false where the share is not vacant any more, is
   * another one, or the record is gone or has taken one over before.
   */
  takeOver(id: string, share: HandedShare): Promise<boolean>;
  /** Removes the share if it is vacant. */
  dropVacant(slot: number): Promise<void>;
  /** Removes the record if it is still as it was seen; false where it is not. */
  removeUnchanged(id: string, seen: Pick<LeaseRecord, "n">): Promise<boolean>;
}
