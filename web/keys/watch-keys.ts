import { Code, ConnectError } from "@connectrpc/connect";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import type { WatchKeysResponse } from "#gen/keyrun/v1/key_service_pb.ts";
import { bounds } from "../bounds.ts";

/** What a watch needs of the world, and whom it tells. */
export interface Watch {
  /** Opens the stream; ends when the signal aborts. */
  open(signal: AbortSignal): AsyncIterable<WatchKeysResponse>;
  /** Resolves after the time, or at once when there is reason to hope; never rejects. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** From 0 to below 1. */
  random(): number;
  /** The stream is open: changes from now on are told. */
  onOpened(): void;
  onCreated(key: Key): void;
  onRevoked(key: Key): void;
  /** The stream was lost or could not be opened; it is tried again until `onOpened`. */
  onPaused(): void;
}

/**
 * Tells the changes of a team's keys until the signal aborts. A stream that ends, fails or falls silent for
 * `watchSilenceMsMax` is opened again, after a wait that doubles up to `watchRetryMsMax` and of which up to half
 * is left to chance. Resolves early where trying again can't help: the session is over, or the team out of reach.
 */
export async function watchKeys(watch: Watch, signal: AbortSignal): Promise<"aborted" | "refused"> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await readStream(watch, signal, () => {
        failures = 0;
      });
    } catch (thrown) {
      if (!signal.aborted && final.has(ConnectError.from(thrown).code)) return "refused";
    }
    if (signal.aborted) break;
    watch.onPaused();
    await watch.wait(retryDelayMs(failures, watch.random()), signal);
    failures += 1;
  }
  return "aborted";
}

/** How long to wait before the next attempt, after so many failures in a row. */
export function retryDelayMs(failures: number, random: number): number {
  const fullMs = Math.min(bounds.watchRetryMsMin * 2 ** failures, bounds.watchRetryMsMax);
  return fullMs * (1 - random / 2);
}

const final = new Set([Code.Unauthenticated, Code.PermissionDenied, Code.NotFound]);

async function readStream(watch: Watch, signal: AbortSignal, onAlive: () => void): Promise<void> {
  const silence = new AbortController();
  const onSilence = () => silence.abort();
  let timer = setTimeout(onSilence, bounds.watchSilenceMsMax);
  try {
    for await (const { event } of watch.open(AbortSignal.any([signal, silence.signal]))) {
      clearTimeout(timer);
      timer = setTimeout(onSilence, bounds.watchSilenceMsMax);
      // Only what comes after "opened" shows that the stream holds.
      if (event.case !== "opened") onAlive();
      if (event.case === "opened") watch.onOpened();
      else if (event.case === "created") watch.onCreated(event.value);
      else if (event.case === "revoked") watch.onRevoked(event.value);
    }
  } finally {
    clearTimeout(timer);
  }
}
