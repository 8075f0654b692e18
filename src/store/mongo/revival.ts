import { setTimeout as sleep } from "node:timers/promises";
import type { MongoClient } from "mongodb";
import type { Clock } from "../../base/clock.ts";
import { Refusal } from "../../refusal/refusal.ts";
import type { StoreCall } from "./store-call.ts";

/** Keeps a client able to reconnect. */
export interface Revival {
  /** Wraps the call. Where every call was UNAVAILABLE for `afterMs`, the client connects anew. */
  watch(call: StoreCall): StoreCall;
  /** Closes the client for good. */
  close(): Promise<void>;
}

/**
 * The driver reconnects by itself, but not always. Version 7.9.0 waits for ever for the "drain" of
 * a socket that it wrote to between the socket's end and its "close". Where that socket is the
 * monitor's, the client never looks for the server again; this happens with a server that is polled
 * and ends all its connections at once. A client that is closed and connected again does find the
 * server.
 */
export function createRevival(
  client: MongoClient,
  { clock, afterMs }: { readonly clock: Clock; readonly afterMs: number },
): Revival {
  let failingSinceMs: number | undefined;
  let reviving: Promise<void> | undefined;
  let closed = false;

  async function revive(): Promise<void> {
    for (let connected = false; !connected && !closed; ) {
      await client.close().catch(() => {});
      connected = await client.connect().then(
        () => true,
        () => false,
      );
      // Pauses before it tries again, in case the server refuses at once.
      if (!connected && !closed) await sleep(pauseMs, undefined, { ref: false });
    }
    failingSinceMs = undefined;
    reviving = undefined;
  }

  function noteFailure(): void {
    const nowMs = clock.monotonicMs();
    failingSinceMs ??= nowMs;
    if (!closed && nowMs - failingSinceMs >= afterMs) reviving ??= revive();
  }

  return {
    watch: (call) => async (work) => {
      try {
        const result = await call(work);
        failingSinceMs = undefined;
        return result;
      } catch (thrown) {
        if (thrown instanceof Refusal && thrown.reason === "UNAVAILABLE") noteFailure();
        else failingSinceMs = undefined;
        throw thrown;
      }
    },
    async close() {
      closed = true;
      await reviving;
      await client.close();
    },
  };
}

const pauseMs = 100;
