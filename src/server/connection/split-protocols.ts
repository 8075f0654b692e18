import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { TransportLimits } from "../transport.ts";
import { keepWhileOpen } from "./connections.ts";

/**
 * Gives each connection of an HTTP/1.1 server to the protocol that it speaks: HTTP/2 to
 * `acceptHttp2`, and the others to the server's own listeners, after `onHttp1`. Over TLS the
 * protocol is agreed with ALPN; otherwise the first bytes tell it. Returns the open connections
 * whose protocol is not known yet.
 */
export function splitProtocols(
  server: Server,
  split: {
    readonly isTls: boolean;
    /** Returns whether the connection may stay. */
    admit(socket: Socket): boolean;
    onHttp1(socket: Socket): void;
    /** Takes over a socket whose next bytes are HTTP/2's preface. */
    acceptHttp2(socket: Socket): void;
    readonly limits: TransportLimits;
  },
): ReadonlySet<Socket> {
  const undecided = new Set<Socket>();
  const start = (socket: Socket, protocol: "http1" | "http2", acceptHttp1: (socket: Socket) => void) => {
    if (protocol === "http2") return split.acceptHttp2(socket);
    split.onHttp1(socket);
    acceptHttp1(socket);
  };
  const startConnection = detachListeners(server, "connection");
  if (split.isTls) {
    const acceptHttp1 = detachListeners(server, "secureConnection");
    server.on("connection", (socket: Socket) => {
      if (split.admit(socket)) startConnection(socket);
    });
    server.on("secureConnection", (socket: TLSSocket) => {
      socket.on("error", () => undefined);
      // A client that offers no protocol speaks HTTP/1.1.
      start(socket, socket.alpnProtocol === "h2" ? "http2" : "http1", acceptHttp1);
    });
    return undecided;
  }
  const { connectionStartsPerTurnMax, heldStartTurnsMax, peekMsMax, fewFirstBytesMax } = split.limits;
  const staggered = createStaggered(connectionStartsPerTurnMax, heldStartTurnsMax);
  server.on("connection", (socket: Socket) => {
    if (!split.admit(socket)) return;
    staggered.accepted();
    keepWhileOpen(undecided, socket);
    const startPeeked = (protocol: "http1" | "http2") => {
      undecided.delete(socket);
      if (!socket.destroyed) start(socket, protocol, startConnection);
    };
    peekProtocol(socket, peekMsMax, (protocol, bytes) =>
      staggered.start(() => startPeeked(protocol), bytes <= fewFirstBytesMax ? "few" : "many"),
    );
  });
  return undecided;
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

/**
 * RFC 9113, section 3.4. No HTTP/1.1 method begins with these three letters, but POST shares the
 * first.
 */
const http2Preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/**
 * Reads the first bytes of a connection and puts them back. It is HTTP/2 once its whole preface has
 * arrived, and HTTP/1.1 as soon as the bytes differ from the preface. Calls `onProtocol` once, with
 * the number of the bytes and with the socket paused. If the socket ends or `msMax` is over before
 * that, destroys the socket instead: the timeouts of the servers do not apply to it yet.
 */
function peekProtocol(
  socket: Socket,
  msMax: number,
  onProtocol: (protocol: "http1" | "http2", bytes: number) => void,
): void {
  let seen: Buffer = Buffer.alloc(0);
  const abandon = () => {
    stop();
    socket.destroy();
  };
  const look = () => {
    for (let chunk: Buffer | null = socket.read(); chunk !== null; chunk = socket.read()) {
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
    }
    if (seen.length === 0) return;
    const protocol = protocolOf(seen);
    if (protocol === undefined) return;
    stop();
    socket.unshift(seen);
    onProtocol(protocol, seen.length);
  };
  const timer = setTimeout(abandon, msMax);
  const stop = () => {
    clearTimeout(timer);
    socket.off("readable", look).off("end", abandon).off("close", stop);
  };
  socket.on("readable", look).on("end", abandon).on("close", stop);
}

function protocolOf(seen: Buffer): "http1" | "http2" | undefined {
  const length = Math.min(seen.length, http2Preface.length);
  if (seen.compare(http2Preface, 0, length, 0, length) !== 0) return "http1";
  // Three bytes would be enough to decide. We wait for the whole preface, because an HTTP/2 session
  // has no time limit of its own for it.
  return length < http2Preface.length ? undefined : "http2";
}

/**
 * Starts at most `perTurnMax` connections in a turn of the event loop: everything that a connection
 * brings at once is parsed in one turn, before any of it can be refused. `start` starts one, now or
 * in a later turn; `accepted` tells that one was accepted. The system hands over one new connection
 * a turn. So as long as they arrive, those with many first bytes wait, because each makes the turn
 * long, for at most `heldTurnsMax` turns. After that, the last one of a turn is one of them, so
 * that none waits for ever. Each start runs in a callback of its own: what it leaves to
 * `process.nextTick` is done before the next one, and if it throws, it stops no other.
 */
export function createStaggered(perTurnMax: number, heldTurnsMax: number) {
  const few: (() => void)[] = [];
  const many: (() => void)[] = [];
  let scheduled = 0;
  let hasArrived = false;
  let heldTurns = 0;
  const schedule = () => {
    scheduled = Math.min(perTurnMax, few.length + many.length);
    for (let at = 0; at < scheduled; at += 1) setImmediate(at === 0 ? runFirst : runNext);
  };
  const runFirst = () => {
    heldTurns = hasArrived && heldTurns < heldTurnsMax ? heldTurns + 1 : 0;
    hasArrived = false;
    runNext();
  };
  const runNext = () => {
    scheduled -= 1;
    const task = scheduled === 0 ? (ofMany() ?? few.shift()) : (few.shift() ?? ofMany());
    // The last one of a turn schedules the next turn.
    if (scheduled === 0) schedule();
    task?.();
  };
  const ofMany = () => (heldTurns > 0 ? undefined : many.shift());
  return {
    start(task: () => void, first: "few" | "many"): void {
      (first === "few" ? few : many).push(task);
      if (scheduled === 0) schedule();
    },
    accepted(): void {
      hasArrived = true;
    },
  };
}
