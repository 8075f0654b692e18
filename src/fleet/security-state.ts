/**
 * The one function for changes that may take a right away: it writes, voids what this process knew,
 * and tells the fleet.
 */

import type { ControlChange, SecurityKind } from "./control-store.ts";
import type { Fleet } from "./fleet.ts";

/** A changed record of a kind that is cached: copies below `version` are void from now on. */
export interface FlooredChange<V> {
  readonly id: string;
  readonly version: number;
  /**
   * The changed record: with it, the next look-up needs no read. Absent where the record was
   * deleted.
   */
  readonly value?: V;
  /**
   * Takes no right away, as a creation or a larger plan. The other instances learn of it, but
   * nobody waits until they have.
   */
  readonly grants?: boolean;
  /**
   * Changes nothing that another instance decides by without a read of the store, so it is not
   * announced.
   */
  readonly localOnly?: boolean;
  /** The team of a key, for those who watch its keys on other instances. */
  readonly teamId?: string;
}

type Versioned = { readonly id: string; readonly version: number };

/** The record, if there is one, as a change that may take a right away. */
export function changeOf<V extends Versioned>(record: V | undefined): FlooredChange<V> | undefined {
  return record && { id: record.id, version: record.version, value: record };
}

/** As `changeOf`, for a change that takes none. */
export function grantOf<V extends Versioned>(record: V | undefined): FlooredChange<V> | undefined {
  return record && { id: record.id, version: record.version, value: record, grants: true };
}

/** A changed record of a kind that is never cached: no copy has to become void. */
export interface StoredChange {
  readonly id: string;
}

/**
 * Does a write that may take a right away, and voids what was known before it. Once it resolves, no
 * request that is sent later is served from older knowledge: await it before any answer.
 *
 * Resolves with what the write resolved with. `changes` are the records that it changes, or a
 * function that says so of what was written. Where the write throws, nothing is voided and its
 * error is passed on.
 *
 * Creations go through it too, because a cache may say that the id does not exist.
 */
export type ChangeSecurityState<Kind extends SecurityKind, Change> = <Written>(
  kind: Kind,
  write: () => Promise<Written>,
  changes: Changes<Change> | ((written: Written) => Changes<Change>),
) => Promise<Written>;

/** One record, several, or undefined for none. */
type Changes<Change> = Change | readonly Change[] | undefined;

/**
 * The part of a cache that makes records void: copies below `version`, and those that are still
 * being read.
 */
export interface Floor<V> {
  raise(id: string, version: number, value?: V): void | Promise<void>;
}

type Floors<Values> = { readonly [Kind in keyof Values]: Floor<Values[Kind]> };
type ChangeOf<Values, Kind> = Kind extends keyof Values ? FlooredChange<Values[Kind]> : StoredChange;

/**
 * Raises the floors of this process, and in a fleet those of every instance: only changes that
 * grant are not waited for. Without a fleet all caches are this process's own, so its floors are
 * enough.
 *
 * A kind without a floor here is in no cache: it is read from the store at every use, so there
 * is nothing to tell anybody.
 */
export function createSecurityState<Values extends { readonly [Kind in SecurityKind]?: object }>({
  floors,
  fleet,
}: {
  readonly floors: Floors<Values>;
  readonly fleet?: Pick<Fleet, "announce">;
}) {
  return async <Kind extends SecurityKind, Written>(
    kind: Kind,
    write: () => Promise<Written>,
    changes: Changes<ChangeOf<Values, Kind>> | ((written: Written) => Changes<ChangeOf<Values, Kind>>),
  ): Promise<Written> => {
    const written = await write();
    const floor: Floor<Values[Kind]> | undefined = floors[kind];
    const made = typeof changes === "function" ? changes(written) : changes;
    if (!floor || made === undefined) return written;
    // The changes of a kind with a floor have a version, which the compiler can't see in here.
    const all = (Array.isArray(made) ? made : [made]) as readonly FlooredChange<Values[Kind]>[];
    // In a fleet, a newer change of another instance may have been missed since the write began, so
    // the value is not kept.
    await Promise.all(
      all.map(({ id, version, value }) => floor.raise(id, version, fleet ? undefined : value)),
    );
    const announced = all.filter(({ localOnly }) => localOnly !== true);
    if (fleet && announced.length > 0) await announceAll(fleet, kind, announced);
    return written;
  };
}

async function announceAll(
  fleet: Pick<Fleet, "announce">,
  kind: SecurityKind,
  changes: readonly FlooredChange<unknown>[],
): Promise<void> {
  const those = (isOne: (change: FlooredChange<unknown>) => boolean): ControlChange[] =>
    changes
      .filter(isOne)
      .map(({ id, version, teamId }) => ({ kind, id, version, ...(teamId !== undefined && { teamId }) }));
  const granted = those(({ grants }) => grants === true);
  const taken = those(({ grants }) => grants !== true);
  if (granted.length > 0) await fleet.announce(granted, { wait: false });
  if (taken.length > 0) await fleet.announce(taken, { wait: true });
}

/** Raises the floors that other instances' changes ask for. */
export function raiseFloors(
  floors: { readonly [Kind in SecurityKind]?: { raise(id: string, version: number): void } },
  changes: readonly ControlChange[],
): void {
  for (const { kind, id, version } of changes) {
    if (kind !== "plan-limits" && kind !== "run") floors[kind]?.raise(id, version);
  }
}
