import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { useCell } from "../cell.ts";
import { useServices } from "../services.tsx";
import { watchKeys } from "./watch-keys.ts";

interface LiveKeys {
  /** The stream is open: what was read before may be out of date. */
  onOpened(): void;
  onCreated(key: Key): void;
  onRevoked(key: Key): void;
  /** Keyrun refused the stream for good: reading the list tells why. */
  onRefused(): void;
}

/**
 * Follows the changes of a team's keys while the page is in view: a hidden page would hold one of the few
 * connections that a browser opens to one host. Answers whether updates are paused.
 */
export function useLiveKeys(teamId: string, live: LiveKeys): { paused: boolean } {
  const { keyChanges, sessionEnded } = useServices();
  const ended = useCell(sessionEnded);
  const visible = useSyncExternalStore(subscribeToVisibility, isVisible);
  const [paused, setPaused] = useState(false);
  const told = useRef(live);
  told.current = live;

  useEffect(() => {
    if (!visible || ended) return;
    const watching = new AbortController();
    let network = new AbortController();
    // A browser keeps what was open when the network went, and waits in silence.
    window.addEventListener("offline", () => network.abort(), { signal: watching.signal });
    const watch = {
      open(signal: AbortSignal) {
        network = new AbortController();
        return keyChanges.watchKeys({ teamId }, { signal: AbortSignal.any([signal, network.signal]) });
      },
      wait: waitOrFocus,
      random: Math.random,
      onOpened() {
        setPaused(false);
        told.current.onOpened();
      },
      onCreated: (key: Key) => told.current.onCreated(key),
      onRevoked: (key: Key) => told.current.onRevoked(key),
      onPaused: () => setPaused(true),
    };
    void watchKeys(watch, watching.signal).then((end) => {
      if (end === "refused") told.current.onRefused();
    });
    return () => watching.abort();
  }, [teamId, visible, ended, keyChanges]);

  return { paused: paused && !ended };
}

function subscribeToVisibility(onChange: () => void): () => void {
  document.addEventListener("visibilitychange", onChange);
  return () => document.removeEventListener("visibilitychange", onChange);
}

function isVisible(): boolean {
  return document.visibilityState === "visible";
}

/** Waits, but not past the moment that the network or the person comes back. */
function waitOrFocus(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = new AbortController();
    const done = () => {
      clearTimeout(timer);
      over.abort();
      resolve();
    };
    const timer = setTimeout(done, ms);
    for (const hope of ["online", "focus"]) window.addEventListener(hope, done, { signal: over.signal });
    signal.addEventListener("abort", done, { signal: over.signal });
  });
}
