import { isIP, type LookupFunction, connect as openTcp, type Socket } from "node:net";
import { connect as openTls, type SecureContext } from "node:tls";
import type { buildConnector, Pool } from "undici";
import undiciSymbols from "undici/lib/core/symbols.js";
import UndiciClient from "undici/lib/dispatcher/client.js";
import UndiciPool from "undici/lib/dispatcher/pool.js";
import type { AppRecord } from "../apps/app-store.ts";
import type { Clock, Timers } from "../base/clock.ts";
import { runBounds } from "./run-bounds.ts";

/**
 * Keeps connections to the servers of apps, at most `connectionsMax` for one app. An unused one is
 * closed soon, and an app that was not run for some time is forgotten when others need its place.
 */
export function createHttpConnections(options: {
  clock: Clock;
  timers: Timers;
  lookup: LookupFunction;
  /** Returns what servers with TLS are verified against. Called for each connection. */
  roots: () => SecureContext;
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

/**
 * Makes room: forgets the apps without a run since then, or else all that have none at the moment.
 */
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
function openPool(
  origin: string,
  { connectionsMax, timers, ...places }: { connectionsMax: number; timers: Timers } & ConnectorOptions,
): Pool {
  const connector = createConnector(places);
  const pool = new UndiciPool(origin, {
    connections: connectionsMax,
    allowH2: false,
    factory(url) {
      const connection: Connection = new Connection(url, {
        connect: (to, done) => connection.open(() => connector(to), timers, done),
        allowH2: false,
        pipelining: 1,
        // The time of a run is limited by its caller, which also ends it.
        headersTimeout: 0,
        bodyTimeout: 0,
        maxHeaderSize: runBounds.backendHeaderBytesMax,
        keepAliveTimeout: runBounds.backendSocketIdleMs,
        keepAliveMaxTimeout: runBounds.backendSocketIdleMs,
        keepAliveTimeoutThreshold: runBounds.backendKeepAliveMarginMs,
      });
      return connection;
    },
  });
  // undici keeps a client whose connection has ended, and with it the dead socket and what nobody
  // has read of it, up to 64 KiB: `connectionsMax` of them, for ever. One that could not connect it
  // lets go of.
  return pool.on("disconnect", (...ended) => void pool.emit("connectionError", ...ended));
}

/** A request that is told which connection it got. undici itself does not say it. */
export abstract class CarriedRequest {
  /** Undefined while the request waits for a connection. */
  carrier: Connection | undefined;
}

/** One connection at a time, which is opened again when it is needed. */
class Connection extends UndiciClient {
  #socket: Socket | undefined;
  #isOpening = false;

  constructor(...parameters: ConstructorParameters<typeof UndiciClient>) {
    super(...parameters);
    this.on("connect", () => {
      if (this.#socket) guardHeads(this.#socket);
    });
  }

  override dispatch(...[options, handler]: Parameters<UndiciClient["dispatch"]>): boolean {
    if (handler instanceof CarriedRequest) handler.carrier = this;
    return super.dispatch(options, handler);
  }

  /** Opens a socket for undici, which calls this. Within `backendConnectMsMax` it is connected. */
  open(begin: () => Socket, timers: Timers, done: buildConnector.Callback): void {
    const socket = begin();
    this.#socket = socket;
    this.#isOpening = true;
    const { backendConnectMsMax } = runBounds;
    const late = timers.after(backendConnectMsMax, () =>
      socket.destroy(new Error(`No connection within ${backendConnectMsMax} ms.`)),
    );
    const settle = (error: Error | null) => {
      late.cancel();
      if (!this.#isOpening || this.#socket !== socket) return;
      this.#isOpening = false;
      if (error) return done(error, null);
      socket.setKeepAlive(true, runBounds.backendSilenceMs);
      done(null, socket);
    };
    // Over TLS a connection is there after the server's certificate was verified.
    socket.once("encrypted" in socket ? "secureConnect" : "connect", () => settle(null));
    socket.on("error", settle);
    socket.once("close", () => settle(new Error("The connection closed before it was there.")));
  }

  /** Ends the attempt to connect, if there is one. */
  giveUp(): void {
    if (this.#isOpening) this.#socket?.destroy(new Error("Nobody waits for the connection."));
  }

  /** Closes the connection if it has not taken everything that was written. */
  closeUnlessWritten(): void {
    if (this.#socket && this.#socket.writableLength > 0) this.#socket.destroy();
  }

  /** Calls back once the system has taken everything that was written, if it ever does. */
  whenWritten(done: () => void): void {
    if (this.#socket?.writableLength === 0) done();
    else this.#socket?.once("drain", done);
  }

  /** The error that ended the connection. Undefined while there is none. */
  get error(): Error | undefined {
    return this.#socket?.errored ?? undefined;
  }
}

/**
 * undici ends a connection on which the server says 100, although a client must pass over each
 * interim head (RFC 9110, section 15.2): here it reads 102 instead. It also bounds only the bytes
 * of a head or trailer, and keeps two objects for each field, however small.
 */
function guardHeads(socket: Socket): void {
  const parser = (socket as Socket & { [undiciSymbols.kParser]: undiciSymbols.Parser })[
    undiciSymbols.kParser
  ];
  const { onHeaderField, onHeadersComplete } = parser;
  parser.onHeaderField = (name) => {
    if (parser.headers.length < 2 * runBounds.backendHeaderFieldsMax) return onHeaderField.call(parser, name);
    socket.destroy(new Error(`A head or trailer has more than ${runBounds.backendHeaderFieldsMax} fields`));
    return -1;
  };
  parser.onHeadersComplete = (status, ...rest) =>
    onHeadersComplete.call(parser, status === 100 ? 102 : status, ...rest);
}

interface ConnectorOptions {
  readonly lookup: LookupFunction;
  readonly roots: () => SecureContext;
  readonly readsAhead?: boolean;
}

function createConnector({ lookup, roots, readsAhead = true }: ConnectorOptions) {
  const reading = readsAhead ? {} : { highWaterMark: 0 };
  let session: Buffer | undefined;
  return ({ protocol, hostname, port }: Parameters<buildConnector.connector>[0]): Socket => {
    const isTls = protocol === "https:";
    const portOfServer = Number(port) || (isTls ? 443 : 80);
    const to = { host: hostname, port: portOfServer, lookup, noDelay: true, ...reading };
    if (!isTls) return openTcp(to);
    // An address is no name (RFC 6066).
    const servername = isIP(hostname) === 0 ? hostname : "";
    const socket = openTls({
      ...to,
      servername,
      secureContext: roots(),
      ALPNProtocols: ["http/1.1"],
      ...(session && { session }),
    });
    return socket.on("session", (latest) => {
      session = latest;
    });
  };
}
