import type { ControlView, NumberedChange } from "./control-store.ts";

/** Up to which change this instance acts on all of them. */
export interface AppliedChanges {
  /** The `seq` to acknowledge; undefined before the first `restart` and after `forget`. */
  seq(): number | undefined;
  /** Forgets what was known: whatever is read from now on is at least as new as `seq`. */
  restart(seq: number): void;
  /** Forgets what was known; views change nothing until the next `restart`. */
  forget(): void;
  /**
   * Applies the changes of the view that are new. Where the view does not reach back to all of
   * them, everything known is forgotten. Returns whether there were any.
   */
  take(view: ControlView): boolean;
}

export function createAppliedChanges(parts: {
  readonly apply: (changes: readonly NumberedChange[]) => void;
  readonly clear: () => void;
}): AppliedChanges {
  const { apply, clear } = parts;
  let applied: number | undefined;
  return {
    seq: () => applied,
    restart(seq) {
      clear();
      applied = seq;
    },
    forget() {
      applied = undefined;
      clear();
    },
    take(view) {
      const before = applied;
      if (before === undefined || view.seq <= before) return false;
      const missed = view.recent.filter(({ seq }) => seq > before);
      if (missed.length < view.seq - before) clear();
      apply(missed);
      // Last, so that a change that could not be applied is never acknowledged.
      applied = view.seq;
      return true;
    },
  };
}
