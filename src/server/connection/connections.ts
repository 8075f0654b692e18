/** Which connections of a listener may stay: so many of one address. */

import type { Socket } from "node:net";
import { isLoopback } from "../../http/request-head.ts";
import { addressBlock } from "../../limit/address-block.ts";
import type { Report } from "../transport.ts";

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
