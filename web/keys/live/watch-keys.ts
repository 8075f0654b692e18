import type { Key, WatchKeysResponse } from "../../api/messages.ts";
import { RpcError } from "../../api/rpc-error.ts";
import { bounds } from "../../bounds.ts";

/** What `watchKeys` needs, and what it calls. */
export interface Watch {
  /** Opens the stream; ends when the signal aborts. */
  open(signal: AbortSignal): AsyncIterable<WatchKeysResponse>;
  /** Resolves after `ms`, or sooner when an attempt may succeed. Never rejects. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** A number from 0 to below 1, like `Math.random`. */
  random(): number;
  /** The stream is open, and reports each change from now on. */
  onOpened(): void;
  onCreated(key: Key): void;
  /** The key was revoked, changed or replaced, or has expired. */
  onChanged(key: Key): void;
  onUsed(key: Key): void;
  /** The stream was lost or could not be opened. Attempts go on until `onOpened`. */
  onPaused(): void;
}

/**
 * Reports the changes of a team's keys until the signal aborts. A stream that ends, fails or is
 * silent for `watchSilenceMsMax` is opened again. The wait before that doubles up to
 * `watchRetryMsMax`, less a random part of up to a half.
 *
 * Resolves with "refused" when trying again can't help: the session is over, or the person can't
 * see the team.
 */
export async function watchKeys(watch: Watch, signal: AbortSignal): Promise<"aborted" | "refused"> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await readStream(watch, signal, () => {
        failures = 0;
      });
    } catch (thrown) {
      if (!signal.aborted && thrown instanceof RpcError && final.has(thrown.code)) return "refused";
    }
    if (signal.aborted) break;
    watch.onPaused();
    await watch.wait(retryDelayMs(failures, watch.random()), signal);
    failures += 1;
  }
  return "aborted";
}

/** How long to wait before the next attempt, after this many failures in a row. */
export function retryDelayMs(failures: number, random: number): number {
  const fullMs = Math.min(bounds.watchRetryMsMin * 2 ** failures, bounds.watchRetryMsMax);
  return fullMs * (1 - random / 2);
}

const final = new Set(["unauthenticated", "permission_denied", "not_found"]);

async function readStream(watch: Watch, signal: AbortSignal, onAlive: () => void): Promise<void> {
  const silence = new AbortController();
  const onSilence = () => silence.abort();
  let timer = setTimeout(onSilence, bounds.watchSilenceMsMax);
  try {
    for await (const event of watch.open(AbortSignal.any([signal, silence.signal]))) {
      clearTimeout(timer);
      timer = setTimeout(onSilence, bounds.watchSilenceMsMax);
      // Only an event after "opened" proves that the stream stays open.
      if (event.opened) watch.onOpened();
      else onAlive();
      if (event.created) watch.onCreated(event.created);
      if (event.revoked) watch.onChanged(event.revoked);
      if (event.changed) watch.onChanged(event.changed);
      if (event.used) watch.onUsed(event.used);
    }
  } finally {
    clearTimeout(timer);
  }
}
