import type { AppRecord } from "../apps/app-store.ts";
import type { KeyEvidence } from "../auth/key-evidence.ts";
import { bounds } from "../bounds.ts";
import { createFlooredCache } from "../cache/floored-cache.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { Clock } from "../clock.ts";
import { createSecurityState } from "../fleet/security-state.ts";
import { evidenceOf } from "../keys/keyring.ts";
import { createSemaphore } from "../limit/semaphore.ts";
import type { Metrics } from "../metrics.ts";
import type { SessionRecord } from "../sign-in/session-store.ts";
import { sessionVersionOf } from "../sign-in/sessions.ts";
import type { Stores } from "../store/stores.ts";
import type { TeamRecord } from "../teams/team-store.ts";

/**
 * The caches that keep the store off the path of a run, and the one function that makes cached
 * records void.
 */
export interface Caches {
  readonly keys: RecordSource<KeyEvidence>;
  readonly teams: RecordSource<TeamRecord>;
  readonly apps: RecordSource<AppRecord>;
  readonly sessions: RecordSource<SessionRecord>;
  readonly changeSecurityState: ChangeCached;
}

type ChangeCached = ReturnType<
  typeof createSecurityState<{ key: KeyEvidence; team: TeamRecord; app: AppRecord; session: SessionRecord }>
>;

export function createCaches(stores: Stores, parts: { clock: Clock; metrics: Metrics }): Caches {
  const { keys, teams, apps, sessions } = flooredCaches(stores, parts);
  // Members and preview access are read from the store at each call, so no cached copy has to
  // become void.
  const floors = { key: keys, team: teams, app: apps, session: sessions };
  return { keys, teams, apps, sessions, changeSecurityState: createSecurityState({ floors }) };
}

function flooredCaches(stores: Stores, { clock, metrics }: { clock: Clock; metrics: Metrics }) {
  // One semaphore for keys, teams and apps together, because it protects the store and not one kind
  // of record. Past the bound a look-up waits a moment, and then is refused.
  const semaphore = createSemaphore({
    slots: () => bounds.lookupsMax,
    waitMsMax: bounds.storeTimeoutMs,
    waiters: { size: 0, sizeMax: bounds.lookupWaitersMax },
  });
  // Sessions have a semaphore of their own: anybody may send an invalid cookie, and its look-up
  // must not keep keys waiting.
  const sessionSemaphore = createSemaphore({
    slots: () => bounds.sessionLookupsMax,
    waitMsMax: bounds.storeTimeoutMs,
    waiters: { size: 0, sizeMax: bounds.sessionLookupWaitersMax },
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
        semaphore.run(async () => {
          const key = await stores.keys.find(keyId);
          return key && evidenceOf(key);
        }),
      onLoad: () => metrics.storeRead("key"),
    }),
    teams: createFlooredCache({
      ...shared,
      entriesMax: bounds.cachedTeamsMax,
      load: (teamId) => semaphore.run(() => stores.teams.find(teamId)),
      onLoad: () => metrics.storeRead("team"),
    }),
    apps: createFlooredCache({
      ...shared,
      entriesMax: bounds.cachedAppsMax,
      load: (appId) => semaphore.run(() => stores.apps.find(appId)),
      onLoad: () => metrics.storeRead("app"),
    }),
    sessions: createFlooredCache({
      ...shared,
      entriesMax: bounds.cachedSessionsMax,
      versionOf: sessionVersionOf,
      load: (sessionId) => sessionSemaphore.run(() => stores.sessions.find(sessionId)),
      onLoad: () => metrics.storeRead("session"),
    }),
  };
}
