import { bounds } from "../bounds.ts";

/** The ids under which this process registered or tried to. */
export interface OwnRegistrations {
  /** A new id that becomes the current one, and its predecessor a former one. */
  next(): string;
  has(id: string): boolean;
  /** Those of `ids` that this process registered earlier, and acts on no more. */
  formerAmong(ids: readonly string[]): string[];
}

/** The oldest are forgotten past a bound; other instances then remove their records. */
export function createOwnRegistrations(newId: () => string): OwnRegistrations {
  const ids = new Set<string>();
  let current: string | undefined;
  return {
    next() {
      current = newId();
      ids.add(current);
      const [oldest] = ids;
      if (ids.size > bounds.ownRegistrationsMax && oldest !== undefined) ids.delete(oldest);
      return current;
    },
    has: (id) => ids.has(id),
    formerAmong: (among) => among.filter((id) => id !== current && ids.has(id)),
  };
}
