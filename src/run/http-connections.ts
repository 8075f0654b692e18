import type { LookupFunction } from "node:net";
import { Pool } from "undici";
import type { AppRecord } from "../apps/app-store.ts";
import type { Clock } from "../base/clock.ts";
import { trustedRoots } from "../base/trusted-roots.ts";
import { runBounds } from "./run-bounds.ts";

/**
 * Keeps connections to the servers of apps, at most `connectionsMax` for one app. An unused one is
 * closed soon, and an app that was not run for some time is forgotten when others need its place.
 */
export function createHttpConnections(options: {
  clock: Clock;
  lookup: LookupFunction;
  connectionsMax: number;
  /** Apps without a run whose connections are kept, at most. */
  idleAppsMax: number;
  /**
   * By default a connection reads up to 64 KiB that nobody has asked for, and then up to one read
   * more. If false, it reads again only when all of the last read was used, which costs some more
   * processor time.
   */
  readsAhead?: boolean;
}) {
  const { clock, idleAppsMax } = options;
  const apps = new Map<string, AppConnections>();

  function open(appId: string, origin: string): AppConnections {
    if (apps.size >= idleAppsMax) forgetIdle(apps, clock.monotonicMs() - runBounds.backendSocketIdleMs);
    const opened = { origin, pool: openPool(origin, options), running: 0, lastUseMs: clock.monotonicMs() };
    apps.set(appId, opened);
    return opened;
  }

  return {
    /**
     * Returns the connections of this app to the origin. Apps on the same server share none, so an
     * app that uses up its own takes nothing from another.
     */
    of({ id }: Pick<AppRecord, "id">, origin: string): AppConnections {
      const known = apps.get(id);
      if (known?.origin === origin) return known;
      if (known) closeUnused(known);
      return open(id, origin);
    },
    /** Closes all connections. Call it only when none is in use. */
    close(): void {
      for (const { pool } of apps.values()) pool.destroy().catch(() => {});
      apps.clear();
    },
  };
}

/** The connections to the server of one app. */
export interface AppConnections {
  readonly origin: string;
  readonly pool: Pool;
  /** The exchanges that are not over. */
  running: number;
  lastUseMs: number;
}

/** Makes room: forgets the apps that were not run since then. If there are none, all idle ones. */
function forgetIdle(apps: Map<string, AppConnections>, untilMs: number): void {
  const sizeBefore = apps.size;
  const forget = (isOld: (app: AppConnections) => boolean) => {
    for (const [id, app] of apps) {
      if (app.running > 0 || !isOld(app)) continue;
      apps.delete(id);
      closeUnused(app);
    }
  };
  forget(({ lastUseMs }) => lastUseMs <= untilMs);
  if (apps.size === sizeBefore) forget(() => true);
}

/** Closes the connections as soon as the exchanges on them are over. */
function closeUnused({ pool }: AppConnections): void {
  pool.close().catch(() => {});
}

/**
 * A request is written only to a connection that carries no other. undici keeps a POST that it has
 * begun to write from being written again.
 */
function openPool(origin: string, { connectionsMax, lookup, readsAhead = true }: PoolOptions): Pool {
  return new Pool(origin, {
    connections: connectionsMax,
    allowH2: false,
    pipelining: 1,
    connect: {
      lookup,
      timeout: runBounds.backendConnectMsMax,
      keepAliveInitialDelay: runBounds.backendSilenceMs,
      ...(origin.startsWith("https:") && { secureContext: trustedRoots() }),
      ...(!readsAhead && { highWaterMark: 0 }),
    },
    // The time of a run is limited by its caller, which also ends it.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: runBounds.backendHeaderBytesMax,
    keepAliveTimeout: runBounds.backendSocketIdleMs,
    keepAliveMaxTimeout: runBounds.backendSocketIdleMs,
    keepAliveTimeoutThreshold: runBounds.backendKeepAliveMarginMs,
  });
}

interface PoolOptions {
  readonly connectionsMax: number;
  readonly lookup: LookupFunction;
  readonly readsAhead?: boolean;
}
