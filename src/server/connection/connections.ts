/**
 * Which connections of a listener may stay: so many of one address, and so many bytes of those
 * without a request.
 */

import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { isLoopback } from "../../http/request-head.ts";
import { addressBlock } from "../../limit/address-block.ts";
import type { Report, TransportLimits } from "../transport.ts";
import type { UnreadAnswers, UnreadConnection } from "../unread-answers.ts";

export interface ConnectionsOptions {
  /**
   * The bound on concurrent connections of one IPv4 address or one IPv6 /64 network. Undefined: no
   * bound, for example behind a trusted proxy.
   */
  readonly connectionsPerAddressMax: number | undefined;
  /** Whether the bound ignores this peer. By default it ignores loopback addresses. */
  readonly isExemptAddress?: (address: string) => boolean;
  readonly report: Report;
}

/** Counts the connections of a listener, and refuses those past the bound of their address. */
export function createConnections(options: ConnectionsOptions) {
  const all = new Set<Socket>();
  const perAddressMax = options.connectionsPerAddressMax ?? Number.POSITIVE_INFINITY;
  const cap = createConnectionCap(perAddressMax, options.isExemptAddress ?? isLoopback);
  return {
    all: all as ReadonlySet<Socket>,
    /** Returns whether the connection may stay. If it may not, it is destroyed already. */
    admit(socket: Socket): boolean {
      // A reset by the peer is an `error` event, which would end the process without this listener.
      // `close` follows, and is all that we need.
      socket.on("error", () => undefined);
      const address = socket.remoteAddress;
      if (address === undefined || !cap.admit(address)) {
        if (address !== undefined) options.report({ kind: "connection_refused", by: "address", address });
        socket.destroy();
        return false;
      }
      keepWhileOpen(all, socket);
      socket.once("close", () => cap.release(address));
      return true;
    },
  };
}

export function keepWhileOpen(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  socket.once("close", () => sockets.delete(socket));
}

/**
 * Allows at most `perAddressMax` concurrent connections for each block of addresses: one IPv4
 * address, or one IPv6 /64 network. Exempt addresses are not counted. `admit` counts one connection
 * more, or returns false; call `release` once for each that it allowed.
 */
export function createConnectionCap(perAddressMax: number, isExempt: (address: string) => boolean) {
  // A block is removed with its last connection, so the listener's bound on connections bounds this
  // map.
  const open = new Map<string, number>();
  return {
    admit(address: string): boolean {
      if (isExempt(address)) return true;
      const block = addressBlock(address);
      const count = open.get(block) ?? 0;
      if (count >= perAddressMax) return false;
      open.set(block, count + 1);
      return true;
    },
    release(address: string): void {
      if (isExempt(address)) return;
      const block = addressBlock(address);
      const count = open.get(block);
      if (count === undefined) return;
      if (count === 1) open.delete(block);
      else open.set(block, count - 1);
    },
  };
}

interface Idle {
  readonly connection: Socket | ServerHttp2Session;
  readonly counted: UnreadConnection;
  readonly lastUse: number;
}

/**
 * Bounds the memory of a listener's connections. Call what it returns after each new connection:
 * past the bound it closes connections without a request, first the one that is idle for longest.
 * It ends each as if its time were over.
 */
export function createIdleBound(options: {
  readonly http1: ReadonlySet<Socket>;
  readonly http2: ReadonlySet<ServerHttp2Session>;
  readonly connectionsMax: number;
  readonly unread: Pick<UnreadAnswers, "of">;
  readonly limits: Pick<TransportLimits, "idleBytesMax" | "idleBytes">;
  readonly report: Report;
}): () => void {
  const { http1, http2, connectionsMax, unread, report } = options;
  const { idleBytes } = options.limits;
  // More connections are allowed where there is more memory.
  const idleBytesMax = Math.max(options.limits.idleBytesMax, (connectionsMax * idleBytes.http1) / 2);
  /** The idlest at the last search, the first one last. */
  let idlest: Idle[] = [];
  /** A search looks at every connection, so it is for many new ones. */
  let untilSearch = 0;
  /** Of connections that are closed and still wait for their peers. */
  let closingBytes = 0;

  const search = () => {
    untilSearch = Math.floor((http1.size + http2.size) / 32);
    const found: Idle[] = [];
    for (const connections of [http1, http2]) {
      for (const connection of connections) {
        const counted = unread.of(connection);
        if (counted?.requests === 0) found.push({ connection, counted, lastUse: counted.lastUse });
      }
    }
    found.sort((one, other) => one.lastUse - other.lastUse);
    // A session over HTTP/2 takes the place of more than two connections over HTTP/1.1.
    idlest = found.slice(0, 8 + 4 * untilSearch).reverse();
  };

  return () => {
    untilSearch -= 1;
    const bytesMax = idleBytesMax + closingBytes;
    let over = http1.size * idleBytes.http1 + http2.size * idleBytes.http2 - bytesMax;
    while (over > 0) {
      if (idlest.length === 0 && untilSearch <= 0) search();
      const next = idlest.pop();
      if (next === undefined) return;
      const { connection, counted, lastUse } = next;
      if (counted.socket.destroyed || counted.requests > 0 || counted.lastUse !== lastUse) continue;
      report({ kind: "idle_connection_closed", address: counted.socket.remoteAddress ?? "" });
      const bytes = counted.socket === connection ? idleBytes.http1 : idleBytes.http2;
      closingBytes += bytes;
      counted.socket.once("close", () => {
        closingBytes -= bytes;
      });
      over -= bytes;
      connection.emit("timeout");
    }
  };
}
