import { useCallback, useEffect, useRef, useState } from "react";
import { bounds } from "../bounds.ts";

/** The keys that someone else revoked a moment ago: their rows say so for `departingRowMs` before they go. */
export function useDepartingKeys(): { departing: ReadonlySet<string>; depart(keyId: string): void } {
  const [departing, setDeparting] = useState<ReadonlySet<string>>(new Set());
  const timers = useRef(new Set<ReturnType<typeof setTimeout>>());

  useEffect(() => {
    const running = timers.current;
    return () => running.forEach(clearTimeout);
  }, []);

  const depart = useCallback((keyId: string) => {
    setDeparting((before) => new Set(before).add(keyId));
    const timer = setTimeout(() => {
      timers.current.delete(timer);
      setDeparting((before) => new Set([...before].filter((one) => one !== keyId)));
    }, bounds.departingRowMs);
    timers.current.add(timer);
  }, []);

  return { departing, depart };
}
