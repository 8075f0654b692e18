/** What a right may depend on. */
export type SecurityKind = "key" | "team" | "app" | "member" | "preview" | "session";

/** A changed record of a kind that is cached: copies below `version` are void from now on. */
export interface FlooredChange<V> {
  readonly id: string;
  readonly version: number;
  /**
   * The changed record: with it, the next look-up needs no read. Absent where the record was
   * deleted.
   */
  readonly value?: V;
}

/** A changed record of a kind that is never cached: no copy has to become void. */
export interface StoredChange {
  readonly id: string;
}

/**
 * Does a write that may take a right away, and voids what was known before it. Once it resolves, no
 * request that is sent later is served from older knowledge: await it before any answer.
 *
 * The write resolves with the records that it changed: one, several, or undefined for none. The
 * same value is returned. Where the write throws, nothing is voided and its error is passed on.
 *
 * Creations go through it too, because a cache may hold that the id does not exist.
 */
export type ChangeSecurityState<Kind extends SecurityKind, Change> = <
  Written extends Change | readonly Change[] | undefined,
>(
  kind: Kind,
  write: () => Promise<Written>,
) => Promise<Written>;

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
 * The implementation for one process: all caches are its own, so raising their floors is enough. A
 * kind without a floor here is held by no cache. With several processes, the same function would
 * also wait until each of them has raised its floors.
 */
export function createSecurityState<Values extends { readonly [Kind in SecurityKind]?: object }>({
  floors,
}: {
  readonly floors: Floors<Values>;
}) {
  return async <
    Kind extends SecurityKind,
    Written extends ChangeOf<Values, Kind> | readonly ChangeOf<Values, Kind>[] | undefined,
  >(
    kind: Kind,
    write: () => Promise<Written>,
  ): Promise<Written> => {
    const written = await write();
    const floor: Floor<Values[Kind]> | undefined = floors[kind];
    if (!floor || written === undefined) return written;
    // The changes of a kind with a floor have a version, which the compiler can't see in here.
    const changes = (Array.isArray(written) ? written : [written]) as readonly FlooredChange<Values[Kind]>[];
    await Promise.all(changes.map(({ id, version, value }) => floor.raise(id, version, value)));
    return written;
  };
}
