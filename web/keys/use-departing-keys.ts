import { useCallback, useEffect, useRef, useState } from "react";
import type { Key } from "../api/messages.ts";
import { bounds } from "../bounds.ts";

/**
 * The keys that someone else revoked a moment ago, by id. Their rows stay for `departingRowMs` and
 * say so, even when the list is read again without them.
 */
export function useDepartingKeys(): {
  departing: ReadonlyMap<string, Key>;
  depart(key: Key): void;
  /** Lets the rows go at once, because another view may not hold their keys. */
  forget(): void;
} {
  const [departing, setDeparting] = useState<ReadonlyMap<string, Key>>(new Map());
  const timers = useRef(new Set<ReturnType<typeof setTimeout>>());

  useEffect(() => {
    const running = timers.current;
    return () => running.forEach(clearTimeout);
  }, []);

  const depart = useCallback((key: Key) => {
    setDeparting((before) => new Map(before).set(key.id, key));
    const timer = setTimeout(() => {
      timers.current.delete(timer);
      setDeparting((before) => new Map([...before].filter(([keyId]) => keyId !== key.id)));
    }, bounds.departingRowMs);
    timers.current.add(timer);
  }, []);

  const forget = useCallback(() => setDeparting(new Map()), []);

  return { departing, depart, forget };
}
