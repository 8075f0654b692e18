import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Connections } from "./connections.ts";
import { peekProtocol } from "./peek.ts";
import type { Staggered } from "./staggered.ts";

export interface Split {
  readonly connections: Connections;
  /** Holds the open connections whose protocol is not known yet. */
  readonly undecided: Set<Socket>;
  /** Called with each connection that speaks HTTP/1.1, before the server gets it. */
  onHttp1(socket: Socket): void;
  readonly peekMsMax: number;
  /**
   * Few connections start in one turn of the event loop: everything that a connection brings at
   * once is parsed in one turn, before any of it can be refused.
   */
  readonly staggered: Staggered;
  /** A connection whose first bytes are more has many. */
  readonly fewFirstBytesMax: number;
  /** Takes over a socket whose next bytes are HTTP/2's preface. */
  acceptHttp2(socket: Socket): void;
}

/**
 * Passes each connection whose first bytes are HTTP/2's preface to `acceptHttp2`. The HTTP/1.1
 * server keeps the others.
 */
export function splitByPreface(http1: Server, split: Split): void {
  const acceptHttp1 = detachListeners(http1, "connection");
  const { undecided } = split;
  http1.on("connection", (socket: Socket) => {
    if (!split.connections.admit(socket)) return;
    split.staggered.accepted();
    keepWhileOpen(undecided, socket);
    const start = (protocol: "http1" | "http2") => {
      undecided.delete(socket);
      if (socket.destroyed) return;
      if (protocol === "http2") return split.acceptHttp2(socket);
      split.onHttp1(socket);
      acceptHttp1(socket);
    };
    peekProtocol(socket, split.peekMsMax, (protocol, bytes) =>
      split.staggered.start(() => start(protocol), bytes <= split.fewFirstBytesMax ? "few" : "many"),
    );
  });
}

/** Does the same over TLS by ALPN. A client that offers no protocol speaks HTTP/1.1. */
export function splitByAlpn(https1: Server, split: Split): void {
  const startTls = detachListeners(https1, "connection");
  const acceptHttp1 = detachListeners(https1, "secureConnection");
  https1.on("connection", (socket: Socket) => {
    if (split.connections.admit(socket)) startTls(socket);
  });
  https1.on("secureConnection", (socket: TLSSocket) => {
    socket.on("error", () => undefined);
    if (socket.alpnProtocol === "h2") return split.acceptHttp2(socket);
    split.onHttp1(socket);
    acceptHttp1(socket);
  });
}

export function keepWhileOpen(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  socket.once("close", () => sockets.delete(socket));
}

/**
 * Removes Node's own listeners of the event. Returns a function that calls them once the protocol
 * is known.
 */
function detachListeners(server: Server, event: "connection" | "secureConnection"): (socket: Socket) => void {
  const listeners = server.listeners(event);
  server.removeAllListeners(event);
  return (socket) => {
    for (const listener of listeners) listener.call(server, socket);
  };
}
