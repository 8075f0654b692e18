import type { Socket } from "node:net";
import { isLoopback } from "../../http/client-address.ts";
import type { Report } from "../transport-event.ts";
import { createConnectionCap } from "./connection-cap.ts";

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

/** One listener's open connections. */
export interface Connections {
  readonly all: ReadonlySet<Socket>;
  /** Returns whether the connection may stay. If it may not, it is destroyed already. */
  admit(socket: Socket): boolean;
}

export function createConnections(options: ConnectionsOptions): Connections {
  const all = new Set<Socket>();
  const perAddressMax = options.connectionsPerAddressMax ?? Number.POSITIVE_INFINITY;
  const cap = createConnectionCap(perAddressMax, options.isExemptAddress ?? isLoopback);
  return {
    all,
    admit(socket) {
      // A reset by the peer is an `error` event, which would end the process without this listener.
      // `close` follows, and is all that we need.
      socket.on("error", () => undefined);
      const address = socket.remoteAddress;
      if (address === undefined || !cap.admit(address)) {
        if (address !== undefined) options.report({ kind: "connection_refused", by: "address", address });
        socket.destroy();
        return false;
      }
      all.add(socket);
      socket.once("close", () => {
        all.delete(socket);
        cap.release(address);
      });
      return true;
    },
  };
}
