/** The caches of the records that a run needs, each under its floors. */

import type { AppRecord } from "../apps/app-store.ts";
import type { KeyEvidence } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { createFlooredCache, type FlooredCache } from "../cache/floored-cache.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { evidenceOf } from "../keys/verify-key.ts";
import { createSemaphore } from "../limit/semaphore.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { serviceTokenBounds } from "../service-tokens/service-token-store.ts";
import {
  evidenceOf as evidenceOfToken,
  type ServiceTokenEvidence,
} from "../service-tokens/service-tokens.ts";
import { sessionVersionOf } from "../sign-in/sessions.ts";
import type { SessionRecord, SessionStore } from "../sign-in/sign-in-store.ts";
import type { Stores } from "../store/stores.ts";
import type { TeamRecord } from "../teams/team-store.ts";

/**
 * The caches that keep the store off the path of a run.
 */
export interface Caches {
  /** What makes cached records void. */
  readonly floors: Floors;
  readonly keys: RecordSource<KeyEvidence>;
  /** Reads a key past its cache, within the same bounds. */
  readonly rereadKey: (keyId: string) => Promise<KeyEvidence | undefined>;
  readonly teams: RecordSource<TeamRecord>;
  readonly apps: RecordSource<AppRecord>;
  readonly sessions: RecordSource<SessionRecord>;
  readonly serviceTokens: RecordSource<ServiceTokenEvidence>;
  /** Reads a session past its cache, within the same bounds. */
  readonly rereadSession: SessionStore["find"];
}

/**
 * Members and preview access are read from the store at each call, so no copy has to become void.
 */
interface Floors {
  readonly key: FlooredCache<KeyEvidence>;
  readonly team: FlooredCache<TeamRecord>;
  readonly app: FlooredCache<AppRecord>;
  readonly session: FlooredCache<SessionRecord>;
  readonly "service-token": FlooredCache<ServiceTokenEvidence>;
}

export function createCaches(stores: Stores, parts: { clock: Clock; metrics: Metrics }): Caches {
  const { rereadKey, rereadSession, ...caches } = flooredCaches(stores, parts);
  const { keys, teams, apps, sessions, serviceTokens } = caches;
  const floors = { key: keys, team: teams, app: apps, session: sessions, "service-token": serviceTokens };
  return { floors, ...caches, rereadKey, rereadSession };
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
  const serviceSemaphore = createSemaphore({
    slots: () => serviceTokenBounds.lookupsMax,
    waitMsMax: bounds.storeTimeoutMs,
    waiters: { size: 0, sizeMax: serviceTokenBounds.lookupWaitersMax },
  });
  const rereadSession: SessionStore["find"] = (sessionId) =>
    sessionSemaphore.run(() => stores.sessions.find(sessionId));
  const readKey = (keyId: string) =>
    semaphore.run(async () => {
      const key = await stores.keys.find(keyId);
      return key && evidenceOf(key);
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
    rereadSession,
    rereadKey(keyId: string) {
      metrics.storeRead("key");
      return readKey(keyId);
    },
    keys: createFlooredCache({
      ...shared,
      entriesMax: bounds.verifiedKeysMax,
      load: readKey,
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
      load: rereadSession,
      onLoad: () => metrics.storeRead("session"),
    }),
    serviceTokens: createFlooredCache({
      ...shared,
      entriesMax: serviceTokenBounds.cachedMax,
      absentMax: serviceTokenBounds.absentMax,
      load: (tokenId) =>
        serviceSemaphore.run(async () => {
          const token = await stores.serviceTokens.find(tokenId);
          return token && evidenceOfToken(token);
        }),
      onLoad: () => metrics.storeRead("service_token"),
    }),
  };
}
