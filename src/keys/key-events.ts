import { bounds } from "../config.ts";
import { type Refusal, unavailable } from "../error.ts";
import type { KeyRecord } from "./key-store.ts";

/** A durable change of a team's keys. */
export interface KeyEvent {
  readonly kind: "created" | "revoked";
  readonly key: KeyRecord;
}

/** The changes of keys as they happen in this process. */
export interface KeyEvents {
  /** Tells every watcher of the key's team. Never waits for one, and never throws. */
  publish(event: KeyEvent): void;
  /** Watches a team's keys from this moment on. Refuses with UNAVAILABLE past the bounds, and once closed. */
  watch(teamId: string): KeyWatch;
  /** Ends every watch, for the drain: a stream that nobody ends would hold it up. */
  close(): void;
}

/** One watcher's changes, in order. */
export interface KeyWatch {
  /** The next change; "quiet" where there was none for so long. Throws the refusal that the watch was ended with. */
  next(quietMs: number): Promise<KeyEvent | "quiet">;
  /** Ends the watch: what waits is dropped, and `next` throws. The first reason counts. */
  end(reason: Refusal): void;
}

/**
 * At most `watchersMax` watches, `perTeamMax` of one team, and `queueMax` changes that wait for one watcher: who takes
 * them too slowly is ended with UNAVAILABLE, opens again and reads the list.
 */
export function createKeyEvents(
  limits: { watchersMax: number; perTeamMax: number; queueMax: number } = {
    watchersMax: bounds.keyWatchersMax,
    perTeamMax: bounds.keyWatchersPerTeamMax,
    queueMax: bounds.keyWatchQueueMax,
  },
): KeyEvents {
  const watchesByTeam = new Map<string, Set<Watch>>();
  let watchers = 0;
  let closed = false;

  function leave(teamId: string, watch: Watch): void {
    const watches = watchesByTeam.get(teamId);
    if (!watches?.delete(watch)) return;
    watchers -= 1;
    if (watches.size === 0) watchesByTeam.delete(teamId);
  }

  return {
    publish(event) {
      for (const watch of watchesByTeam.get(event.key.teamId) ?? []) {
        if (!watch.push(event)) watch.end(unavailable({ problem: tooSlowWords }));
      }
    },
    watch(teamId) {
      if (closed) throw unavailable({ problem: closingWords });
      const watches = watchesByTeam.get(teamId) ?? new Set();
      if (watchers >= limits.watchersMax || watches.size >= limits.perTeamMax)
        throw unavailable({ problem: tooManyWords });
      const watch: Watch = createWatch(limits.queueMax, () => leave(teamId, watch));
      watchesByTeam.set(teamId, watches.add(watch));
      watchers += 1;
      return watch;
    },
    close() {
      closed = true;
      for (const watches of [...watchesByTeam.values()]) {
        for (const watch of [...watches]) watch.end(unavailable({ problem: closingWords }));
      }
    },
  };
}

const tooSlowWords = "This stream fell too far behind the changes. Open it again, and list the keys.";
const tooManyWords = "As many streams of key changes are open as may be. Try again later.";
const closingWords = "Keyrun is shutting down. Open the stream again in a moment, and list the keys.";

interface Watch extends KeyWatch {
  /** False where the queue is full. */
  push(event: KeyEvent): boolean;
}

function createWatch(queueMax: number, onEnd: () => void): Watch {
  const queue: KeyEvent[] = [];
  let ended: Refusal | undefined;
  let wake = () => {};

  return {
    push(event) {
      if (queue.length >= queueMax) return false;
      queue.push(event);
      wake();
      return true;
    },
    async next(quietMs) {
      if (queue.length === 0 && !ended) await wokenWithin(quietMs, (resolve) => (wake = resolve));
      if (ended) throw ended;
      return queue.shift() ?? "quiet";
    },
    end(reason) {
      if (ended) return;
      ended = reason;
      queue.length = 0;
      onEnd();
      wake();
    },
  };
}

function wokenWithin(ms: number, onWake: (resolve: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    onWake(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
