import type { AppRecord } from "../apps/app-store.ts";
import type { KeyEvidence } from "../auth/key-evidence.ts";
import { createFlooredCache, type FlooredCache } from "../cache/floored-cache.ts";
import type { Clock } from "../clock.ts";
import { bounds } from "../config.ts";
import { evidenceOf } from "../keys/keyring.ts";
import { createGate } from "../limit/gate.ts";
import type { Metrics } from "../metrics.ts";
import type { SessionRecord } from "../signin/session-store.ts";
import { sessionVersionOf } from "../signin/sessions.ts";
import type { Stores } from "../store/stores.ts";
import type { TeamRecord } from "../teams/team-store.ts";

/** What keeps the store off the path of a run: the verified keys, the teams and the apps. */
export interface Caches {
  readonly keys: FlooredCache<KeyEvidence>;
  readonly teams: FlooredCache<TeamRecord>;
  readonly apps: FlooredCache<AppRecord>;
  readonly sessions: FlooredCache<SessionRecord>;
}

export function createCaches(stores: Stores, { clock, metrics }: { clock: Clock; metrics: Metrics }): Caches {
  // One gate for all three: it is the store that must not drown, whatever is looked up. Past the bound a look-up
  // waits a moment, then is refused.
  const gate = createGate({
    slots: () => bounds.lookupsMax,
    waitMsMax: bounds.storeTimeoutMs,
    room: { size: 0, sizeMax: bounds.lookupWaitersMax },
  });
  // Anybody may send a cookie that is none: what that costs the store must not keep keys waiting.
  const sessionGate = createGate({
    slots: () => bounds.sessionLookupsMax,
    waitMsMax: bounds.storeTimeoutMs,
    room: { size: 0, sizeMax: bounds.sessionLookupWaitersMax },
  });
  const shared = {
    clock,
    ttlMs: bounds.verifiedKeyTtlMs,
    absentMax: bounds.absentKeysMax,
    absentTtlMs: bounds.absentKeyTtlMs,
    floorRetentionMs: bounds.floorRetentionMs,
    versionOf: ({ version }: { version: number }) => version,
  };
  return {
    keys: createFlooredCache({
      ...shared,
      entriesMax: bounds.verifiedKeysMax,
      load: (keyId) =>
        gate.run(async () => {
          const key = await stores.keys.find(keyId);
          return key && evidenceOf(key);
        }),
      onLoad: () => metrics.storeRead("key"),
    }),
    teams: createFlooredCache({
      ...shared,
      entriesMax: bounds.cachedTeamsMax,
      load: (teamId) => gate.run(() => stores.teams.find(teamId)),
      onLoad: () => metrics.storeRead("team"),
    }),
    apps: createFlooredCache({
      ...shared,
      entriesMax: bounds.cachedAppsMax,
      load: (appId) => gate.run(() => stores.apps.find(appId)),
      onLoad: () => metrics.storeRead("app"),
    }),
    sessions: createFlooredCache({
      ...shared,
      entriesMax: bounds.cachedSessionsMax,
      versionOf: sessionVersionOf,
      load: (sessionId) => sessionGate.run(() => stores.sessions.find(sessionId)),
      onLoad: () => metrics.storeRead("session"),
    }),
  };
}
