import type { ControlChange } from "./control-store.ts";

/** Changes whose push failed, until they are pushed again. */
export interface UnpushedChanges {
  /** Of one record only the newest version is kept. Past the bound the oldest change is dropped. */
  keep(changes: readonly ControlChange[]): void;
  /** Takes out at most `max` changes, the oldest first. */
  take(max: number): ControlChange[];
}

/**
 * To drop one is safe: its caller was told that it failed, and cached copies end by themselves.
 */
export function createUnpushedChanges(changesMax: number): UnpushedChanges {
  const kept = new Map<string, ControlChange>();
  return {
    keep(changes) {
      for (const change of changes) {
        const name = `${change.kind} ${change.id}`;
        const held = kept.get(name);
        kept.set(name, held && held.version > change.version ? held : change);
      }
      for (const name of kept.keys()) {
        if (kept.size <= changesMax) return;
        kept.delete(name);
      }
    },
    take(max) {
      const taken = [...kept].slice(0, max);
      for (const [name] of taken) kept.delete(name);
      return taken.map(([, change]) => change);
    },
  };
}
