import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Key } from "../../api/messages.ts";
import { rpcs } from "../../api/rpcs.ts";
import { openStream } from "../../api/stream.ts";
import { useCell } from "../../cell.ts";
import { useServices } from "../../services.tsx";
import { watchKeys } from "./watch-keys.ts";

/** What a page does when something changes. */
export interface LiveChanges {
  /** The stream has opened. What was read before may be out of date. */
  onOpened(): void;
  onCreated(key: Key): void;
  /** The key was revoked, changed or replaced, or has expired. */
  onChanged(key: Key): void;
  onUsed(key: Key): void;
  /** Keyrun refused the stream, and trying again can't help. A read of the list shows why. */
  onRefused(): void;
}

/**
 * Follows the changes of a team's keys while the page is in view. A hidden page would hold one of
 * the few connections that a browser opens to one host. `paused` is true while the stream is lost.
 */
export function useLiveKeys(teamId: string, live: LiveChanges): { paused: boolean } {
  const { caller, sessionEnded } = useServices();
  const ended = useCell(sessionEnded);
  const visible = useSyncExternalStore(subscribeToVisibility, isVisible);
  const [paused, setPaused] = useState(false);
  const latest = useRef(live);
  latest.current = live;

  useEffect(() => {
    if (!visible || ended) return;
    const watching = new AbortController();
    let network = new AbortController();
    // Without a network, a browser keeps the stream open and reports no error.
    window.addEventListener("offline", () => network.abort(), { signal: watching.signal });
    const watch = {
      open(signal: AbortSignal) {
        network = new AbortController();
        return openStream(
          caller,
          rpcs.watchKeys,
          { teamId },
          { signal: AbortSignal.any([signal, network.signal]) },
        );
      },
      wait: waitOrFocus,
      random: Math.random,
      onOpened() {
        setPaused(false);
        latest.current.onOpened();
      },
      onCreated: (key: Key) => latest.current.onCreated(key),
      onChanged: (key: Key) => latest.current.onChanged(key),
      onUsed: (key: Key) => latest.current.onUsed(key),
      onPaused: () => setPaused(true),
    };
    void watchKeys(watch, watching.signal).then((end) => {
      if (end === "refused") latest.current.onRefused();
    });
    return () => watching.abort();
  }, [teamId, visible, ended, caller]);

  return { paused: paused && !ended };
}

function subscribeToVisibility(onChange: () => void): () => void {
  document.addEventListener("visibilitychange", onChange);
  return () => document.removeEventListener("visibilitychange", onChange);
}

function isVisible(): boolean {
  return document.visibilityState === "visible";
}

/** Waits, but only until the network is back or the window gets the focus. */
function waitOrFocus(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = new AbortController();
    const done = () => {
      clearTimeout(timer);
      over.abort();
      resolve();
    };
    const timer = setTimeout(done, ms);
    for (const event of ["online", "focus"]) window.addEventListener(event, done, { signal: over.signal });
    signal.addEventListener("abort", done, { signal: over.signal });
  });
}
