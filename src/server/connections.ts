import type { Socket } from "node:net";
import { isLoopback } from "./client-address.ts";
import { createConnectionCap } from "./connection-cap.ts";
import type { Report } from "./transport-event.ts";

export interface ConnectionsOptions {
  /** Connections of one address at once, of IPv6 one /64 network; undefined where there is no such bound, as behind a trusted proxy. */
  readonly connectionsPerAddressMax: number | undefined;
  /** Peers that the bound does not count; the loopback where not said otherwise. */
  readonly isExemptAddress?: (address: string) => boolean;
  readonly report: Report;
}

/** One listener's open connections. */
export interface Connections {
  readonly all: ReadonlySet<Socket>;
  /** Whether the connection may stay; where not, it is gone already. */
  admit(socket: Socket): boolean;
}

export function createConnections(options: ConnectionsOptions): Connections {
  const all = new Set<Socket>();
  const perAddressMax = options.connectionsPerAddressMax ?? Number.POSITIVE_INFINITY;
  const cap = createConnectionCap(perAddressMax, options.isExemptAddress ?? isLoopback);
  return {
    all,
    admit(socket) {
      // A reset by the peer is an `error`; unheard it would end the process. `close` follows and says all we need.
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
