import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Connections } from "./connections.ts";
import { peekProtocol } from "./peek.ts";

export interface Split {
  readonly connections: Connections;
  /** Kept filled with the connections that have not said yet what they speak, and those that speak HTTP/1.1. */
  readonly undecided: Set<Socket>;
  readonly speakingHttp1: Set<Socket>;
  readonly peekMsMax: number;
  /** Takes a socket whose next bytes are HTTP/2's preface. */
  acceptHttp2(socket: Socket): void;
}

/** Gives each connection of the HTTP/1.1 server that speaks HTTP/2 to the other taker, told by its first bytes. */
export function splitByPreface(http1: Server, split: Split): void {
  const acceptHttp1 = takeListenerOff(http1, "connection");
  const { undecided } = split;
  http1.on("connection", (socket: Socket) => {
    if (!split.connections.admit(socket)) return;
    keepWhileOpen(undecided, socket);
    peekProtocol(socket, split.peekMsMax, (protocol) => {
      undecided.delete(socket);
      if (protocol === "http2") return split.acceptHttp2(socket);
      keepWhileOpen(split.speakingHttp1, socket);
      acceptHttp1(socket);
    });
  });
}

/** The same over TLS, where ALPN tells; a client that offers none speaks HTTP/1.1. */
export function splitByAlpn(https1: Server, split: Split): void {
  const startTls = takeListenerOff(https1, "connection");
  const acceptHttp1 = takeListenerOff(https1, "secureConnection");
  https1.on("connection", (socket: Socket) => {
    if (split.connections.admit(socket)) startTls(socket);
  });
  https1.on("secureConnection", (socket: TLSSocket) => {
    socket.on("error", () => undefined);
    if (socket.alpnProtocol === "h2") return split.acceptHttp2(socket);
    keepWhileOpen(split.speakingHttp1, socket);
    acceptHttp1(socket);
  });
}

function keepWhileOpen(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  socket.once("close", () => sockets.delete(socket));
}

/** Node's own listener, to be called when the connection turned out to be for it. */
function takeListenerOff(server: Server, event: "connection" | "secureConnection"): (socket: Socket) => void {
  const listeners = server.listeners(event);
  server.removeAllListeners(event);
  return (socket) => {
    for (const listener of listeners) listener.call(server, socket);
  };
}
