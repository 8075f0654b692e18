import { fail } from "../error.ts";

/** How many runs there may be at once, so that one slow app can't take the memory and sockets of all others. */
export interface RunSlots {
  /** Takes a slot of the app; the answer gives it back and is to be called once. Refuses with APP_BUSY. */
  take(appId: string): () => void;
}

export function createRunSlots(limits: {
  appRunsMax: number;
  runsMax: number;
  retryAfterMs: number;
}): RunSlots {
  const runsByApp = new Map<string, number>();
  let runs = 0;

  function give(appId: string) {
    const left = (runsByApp.get(appId) ?? 0) - 1;
    // An app without runs is forgotten, so the map holds no more than the runs there are.
    if (left > 0) runsByApp.set(appId, left);
    else runsByApp.delete(appId);
    runs -= 1;
  }

  return {
    take(appId) {
      const ofApp = runsByApp.get(appId) ?? 0;
      if (ofApp >= limits.appRunsMax || runs >= limits.runsMax) {
        throw fail("APP_BUSY", { retryAfterMs: limits.retryAfterMs });
      }
      runsByApp.set(appId, ofApp + 1);
      runs += 1;
      return () => give(appId);
    },
  };
}
