import { useEffect, useRef } from "react";
import { rpcs } from "../../api/rpcs.ts";
import { bounds } from "../../bounds.ts";
import { useServices } from "../../services.tsx";
import { firstDue, isActive, type KeyPages } from "../key-pages.ts";
import { type LiveChanges, useLiveKeys } from "./use-live-keys.ts";

interface LiveKeysProps extends LiveChanges {
  readonly teamId: string;
  /** The keys that the page has read; undefined if it could not read them. */
  readonly pages: KeyPages | undefined;
  /** Called with true when the stream of changes is lost, and with false when it is open again. */
  onPaused(paused: boolean): void;
}

/** Follows the changes of a team's keys, also of those whose time is over. Shows nothing. */
export function LiveKeys({ teamId, pages, onPaused, ...live }: LiveKeysProps) {
  const { caller, sessionEnded, ticker } = useServices();
  const { paused } = useLiveKeys(teamId, live);
  const latest = useRef({ pages, live });
  latest.current = { pages, live };
  useEffect(() => onPaused(paused), [paused, onPaused]);
  // Also without a stream the page must not show a key as active that is refused. Only Keyrun's
  // clock tells which: this page's may be wrong, so it only says when to ask.
  useEffect(() => {
    const over = new AbortController();
    let nextReadMs = 0;
    const unsubscribe = ticker.subscribe(async () => {
      const nowMs = ticker.unixMs();
      const due = latest.current.pages && firstDue(latest.current.pages, nowMs);
      if (due === undefined || nowMs < nextReadMs || document.hidden || sessionEnded.get()) return;
      nextReadMs = Number.POSITIVE_INFINITY;
      try {
        const query = { teamId, query: due.id, showRevoked: true };
        const { keys = [] } = await caller.call(rpcs.listKeys, query, over);
        const ended = keys.find((key) => key.id === due.id && !isActive(key));
        if (ended) latest.current.live.onChanged(ended);
      } catch {
        // Unknown. The next read shows it.
      }
      nextReadMs = ticker.unixMs() + bounds.expiryReadMs;
    });
    return () => {
      unsubscribe();
      over.abort();
    };
  }, [teamId, caller, sessionEnded, ticker]);
  return null;
}
