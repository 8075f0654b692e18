import type { RunStore } from "./run-store.ts";

/**
 * Returns a look, to be taken every `ownerLookMs`, that interrupts the runs of owners that are
 * gone. An owner that the last look did not know either is: each registers before it takes on a
 * run, and what is known now is newer than the last look. An instance that was cut off for longer
 * than its lease has a new name, and so ends its own runs.
 */
export function createLostOwners({
  store,
  liveOwners,
  interrupt,
}: {
  readonly store: Pick<RunStore, "owners">;
  /** As in `createKeptRuns`. */
  readonly liveOwners: () => ReadonlySet<string> | undefined;
  readonly interrupt: (owner: string) => Promise<void>;
}): () => Promise<void> {
  let suspects: ReadonlySet<string> = new Set();
  return async () => {
    const owners = await store.owners();
    const live = liveOwners();
    if (!live) {
      suspects = new Set();
      return;
    }
    const unknown = owners.filter((owner) => !live.has(owner));
    for (const owner of unknown) if (suspects.has(owner)) await interrupt(owner);
    suspects = new Set(unknown);
  };
}
