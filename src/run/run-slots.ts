import { fail } from "../refusal/refusal.ts";

/**
 * Bounds the runs at once, for each app and in all, so that one slow app can't use up memory and
 * sockets.
 */
export interface RunSlots {
  /**
   * Takes a slot for a run of the app. Call the returned function once to give it back. Refuses
   * with APP_BUSY if no slot is free.
   */
  acquire(appId: string): () => void;
}

export function createRunSlots(limits: {
  appRunsMax: number;
  runsMax: number;
  retryAfterMs: number;
}): RunSlots {
  const runsByApp = new Map<string, number>();
  let runs = 0;

  function release(appId: string) {
    const left = (runsByApp.get(appId) ?? 0) - 1;
    // An app without runs is removed, so the map never has more entries than there are runs.
    if (left > 0) runsByApp.set(appId, left);
    else runsByApp.delete(appId);
    runs -= 1;
  }

  return {
    acquire(appId) {
      const ofApp = runsByApp.get(appId) ?? 0;
      if (ofApp >= limits.appRunsMax || runs >= limits.runsMax) {
        throw fail("APP_BUSY", { retryAfterMs: limits.retryAfterMs });
      }
      runsByApp.set(appId, ofApp + 1);
      runs += 1;
      return () => release(appId);
    },
  };
}
