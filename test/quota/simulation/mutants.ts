import type { QuotaChange, QuotaRecord, QuotaStore } from "#src/quota/quota-store.ts";

/** One error that breaks a promise: of the store, or of what an instance does with its ledger. */
export interface Mutant {
  readonly store?: (store: QuotaStore) => QuotaStore;
  readonly isLive?: (id: string) => boolean;
  /** A record is replaced, whatever it is by then. */
  readonly ignoresVersions?: boolean;
  readonly sweepsNever?: boolean;
  readonly dropsNothing?: boolean;
  readonly releasesTwice?: boolean;
  readonly closesNothing?: boolean;
}

export const unmutated: Mutant = {};

export const mutants = {
  "a record is replaced, although another instance has changed it": { ignoresVersions: true },
  "what is claimed is not written": {
    store: writing((before, after) => ({ ...after, claimed: Math.min(before.claimed, after.claimed) })),
  },
  "what goes back is counted twice": {
    store: writing((before, after) => {
      const claimed = Math.max(0, after.claimed - Math.max(0, before.claimed - after.claimed));
      return { ...after, claimed };
    }),
  },
  "a grant counts with each of its repeats": { store: writing((_, after) => ({ ...after, grantIds: [] })) },
  "a grant is lost": { store: writing((_, after) => ({ ...after, granted: 0 })) },
  "an instance that lives is taken for gone": { isLive: () => false },
  "an instance that is gone is taken for one that lives": { isLive: () => true },
  "what is idle never goes back": { sweepsNever: true },
  "a clean stop gives nothing back": { closesNothing: true },
  "what is held of a deleted team is spent by the next one with its id": { dropsNothing: true },
  "what a refused request has taken goes back twice": { releasesTwice: true },
} satisfies Record<string, Mutant>;

/** A store that writes something else than it should. */
function writing(
  instead: (before: QuotaRecord, after: QuotaRecord) => QuotaRecord,
): (store: QuotaStore) => QuotaStore {
  const wrong = (change: QuotaChange) => (before: QuotaRecord) => {
    const after = change(before);
    return after === before ? before : instead(before, after);
  };
  return (store) => ({
    ...store,
    change: (changes) => store.change(changes.map(({ place, change }) => ({ place, change: wrong(change) }))),
  });
}
