import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Report } from "../transport-event.ts";
import type { TransportLimits } from "../transport-limits.ts";
import type { UnreadAnswers, UnreadConnection } from "../unread-answers.ts";

export interface IdleBoundOptions {
  readonly http1: ReadonlySet<Socket>;
  readonly http2: ReadonlySet<ServerHttp2Session>;
  readonly connectionsMax: number;
  readonly unread: Pick<UnreadAnswers, "of">;
  readonly limits: Pick<TransportLimits, "idleBytesMax" | "idleBytes">;
  readonly report: Report;
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
export function createIdleBound(options: IdleBoundOptions): () => void {
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
