import type { AppRecord } from "../apps/app-store.ts";
import type { KeyEvidence } from "../auth/key-evidence.ts";
import { createFlooredCache, type FlooredCache } from "../cache/floored-cache.ts";
import type { Clock } from "../clock.ts";
import { bounds } from "../config.ts";
import { evidenceOf } from "../keys/keyring.ts";
import { boundedLoad } from "../limit/gate.ts";
import type { Metrics } from "../metrics.ts";
import type { Stores } from "../store/stores.ts";
import type { TeamRecord } from "../teams/team-store.ts";

/** What keeps the store off the path of a run: the verified keys, the teams and the apps. */
export interface Caches {
  readonly keys: FlooredCache<KeyEvidence>;
  readonly teams: FlooredCache<TeamRecord>;
  readonly apps: FlooredCache<AppRecord>;
}

export function createCaches(stores: Stores, { clock, metrics }: { clock: Clock; metrics: Metrics }): Caches {
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
      load: bounded(async (keyId) => {
        const key = await stores.keys.find(keyId);
        return key && evidenceOf(key);
      }),
      onLoad: () => metrics.storeRead("key"),
    }),
    teams: createFlooredCache({
      ...shared,
      entriesMax: bounds.cachedTeamsMax,
      load: bounded((teamId) => stores.teams.find(teamId)),
      onLoad: () => metrics.storeRead("team"),
    }),
    apps: createFlooredCache({
      ...shared,
      entriesMax: bounds.cachedAppsMax,
      load: bounded((appId) => stores.apps.find(appId)),
      onLoad: () => metrics.storeRead("app"),
    }),
  };
}

/** A slow store must not collect waiters without end: past the bound a look-up waits a moment, then is refused. */
function bounded<T>(load: (id: string) => Promise<T>): (id: string) => Promise<T> {
  return boundedLoad(load, {
    loadsMax: bounds.lookupsMax,
    waitMsMax: bounds.storeTimeoutMs,
    waitersMax: bounds.lookupWaitersMax,
  });
}
