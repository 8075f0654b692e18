import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Connections } from "./connections.ts";

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
    const chunk: Buffer | null = socket.read();
    if (chunk === null) return;
    seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
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

/** Starts connections, few in one turn of the event loop. */
interface Staggered {
  /** Starts one, now or in a later turn. Those whose first bytes are few go before the others. */
  start(task: () => void, first: "few" | "many"): void;
  /** Tells that a connection was accepted. */
  accepted(): void;
}

/**
 * Starts at most `perTurnMax` connections in a turn. The system hands over one new connection a
 * turn. So as long as they arrive, those with many first bytes wait, because each makes the turn
 * long, for at most `heldTurnsMax` turns. After that, the last one of a turn is one of them, so
 * that none waits for ever. Each start runs in a callback of its own: what it leaves to
 * `process.nextTick` is done before the next one, and if it throws, it stops no other.
 */
export function createStaggered(perTurnMax: number, heldTurnsMax: number): Staggered {
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
    start(task, first) {
      (first === "few" ? few : many).push(task);
      if (scheduled === 0) schedule();
    },
    accepted() {
      hasArrived = true;
    },
  };
}
