import { Socket } from "node:net";
import type { Report, TransportLimits } from "./transport.ts";

/**
 * Counts the bytes of answers that were passed to Node and that their callers have not read.
 * Nothing in Node bounds them: HTTP/2's flow control keeps an answer in memory for as long as its
 * caller does not open the window. There are two caps, one for a connection and one for the
 * process, and one rule: past half of the process's cap, the connection is closed that holds most
 * for longest.
 */
export class UnreadAnswers {
  readonly limits: TransportLimits;
  readonly #connections = new Map<object, UnreadConnection>();
  #lookedAtMs: number | undefined;
  /** The bytes of all connections. An answer counts with what Node keeps for it. */
  bytes = 0;
  /** How many connections began, and requests ended. */
  uses = 0;
  /** Stands for a connection that is closed already. */
  readonly nobody = new UnreadConnection(new Socket(), "http1");

  constructor(limits: TransportLimits) {
    this.limits = limits;
  }

  /** Returns the count of a connection, by the object that `add` was called with. */
  of(connection: object): UnreadConnection | undefined {
    return this.#connections.get(connection);
  }

  /** Counts for a connection until its socket is closed. */
  add(connection: object, socket: Socket, protocol: "http1" | "http2"): UnreadConnection {
    const added = new UnreadConnection(socket, protocol);
    this.uses += 1;
    added.lastUse = this.uses;
    if (socket.destroyed) return added;
    this.#connections.set(connection, added);
    socket.once("close", () => this.#connections.delete(connection));
    return added;
  }

  /**
   * Closes connections that read too little, while more than half of the cap is taken: first the
   * one that holds most for longest, and none that reads or has just come. Call it regularly, with
   * a monotonic time.
   */
  check(nowMs: number, report: Report): void {
    const { checkIntervalMs, unreadBytesMax, writeBytesPerSecondMin } = this.limits;
    const elapsedMs = nowMs - (this.#lookedAtMs ?? nowMs);
    // Each listener calls this.
    if (this.#lookedAtMs !== undefined && elapsedMs < checkIntervalMs / 2) return;
    this.#lookedAtMs = nowMs;
    const all = [...this.#connections.values()];
    for (const connection of all) connection.look(elapsedMs, writeBytesPerSecondMin);
    const slow = all.filter(({ heldByteMs }) => heldByteMs > 0);
    slow.sort((one, other) => other.heldByteMs - one.heldByteMs);
    let left = this.bytes;
    for (const { bytes, socket } of slow) {
      if (left <= unreadBytesMax / 2) return;
      left -= bytes;
      report({ kind: "connection_closed", by: "unread_answers", bytes, address: socket.remoteAddress ?? "" });
      socket.destroy();
    }
  }
}

/** What the caller of one connection, or HTTP/2 session, has not read. */
export class UnreadConnection {
  readonly socket: Socket;
  readonly #isHttp2: boolean;
  /** Its requests that are not finished. */
  requests = 0;
  /** Grows from use to use of all connections: at its start, and at the end of each request. */
  lastUse = 0;
  bytes = 0;
  /** How many bytes were read since the last look. */
  readBytes = 0;
  /** Grows with the bytes that are held, and with their time. 0 while the caller reads. */
  heldByteMs = 0;
  /** Whether a key was right on it. */
  isProven = false;
  /** Called once, when that is so. */
  onProven: (() => void) | undefined;
  #bytesBefore = 0;
  #writtenBefore = 0;

  constructor(socket: Socket, protocol: "http1" | "http2") {
    this.socket = socket;
    this.#isHttp2 = protocol === "http2";
  }

  look(elapsedMs: number, bytesPerSecondMin: number): void {
    const read = Math.max(this.readBytes, this.#writtenSinceLook());
    // Only bytes that were there at the last look, too, count as held.
    const held = this.#bytesBefore - read;
    const readsEnough = held <= 0 || 1_000 * read >= bytesPerSecondMin * elapsedMs;
    this.heldByteMs = readsEnough ? 0 : this.heldByteMs + held * elapsedMs;
    this.#bytesBefore = this.bytes;
    this.readBytes = 0;
  }

  /** HTTP/2 writes as much as the caller's window allows. HTTP/1.1 writes everything at once. */
  #writtenSinceLook(): number {
    if (!this.#isHttp2 || this.bytes === 0) return 0;
    const before = this.#writtenBefore;
    this.#writtenBefore = this.socket.bytesWritten;
    return this.#writtenBefore - before;
  }
}

/** What the caller of one request has not read of its answer. */
export class UnreadAnswer {
  readonly #all: UnreadAnswers;
  readonly #connection: UnreadConnection;
  #bytes = 0;

  constructor(all: UnreadAnswers, connection: UnreadConnection) {
    this.#all = all;
    this.#connection = connection;
    connection.requests += 1;
  }

  /** A key was right on the connection. */
  prove(): void {
    if (this.#connection.isProven) return;
    this.#connection.isProven = true;
    this.#connection.onProven?.();
  }

  /** Whether a request may begin, although its answer may be large. */
  mayBegin(): boolean {
    return this.#connection.bytes < this.#all.limits.unreadBytesPerConnectionMax && this.hasRoom(0);
  }

  /**
   * Whether the process has room for an answer with so many bytes. The last quarter is kept for
   * connections that hold little, so that callers who read are answered beside those who do not.
   */
  hasRoom(bytes: number): boolean {
    const { unreadBytesMax, littleUnreadBytesMax, unreadAnswerBytes } = this.#all.limits;
    const size = bytes + unreadAnswerBytes;
    const holdsLittle = this.#connection.bytes + size <= littleUnreadBytesMax;
    return this.#all.bytes + size <= (holdsLittle ? unreadBytesMax : 0.75 * unreadBytesMax);
  }

  /** Counts bytes that are passed to Node. */
  add(bytes: number): void {
    this.#change(this.#bytes === 0 ? bytes + this.#all.limits.unreadAnswerBytes : bytes);
  }

  /** Counts bytes as read. After `end` it does nothing. */
  remove(bytes: number): void {
    const left = this.#bytes - bytes;
    const size = left > this.#all.limits.unreadAnswerBytes ? bytes : this.#bytes;
    this.#change(-size);
    this.#connection.readBytes += size;
  }

  /** Called once, when the answer is read or its caller is gone. */
  end(): void {
    this.remove(this.#bytes);
    this.#connection.requests -= 1;
    this.#all.uses += 1;
    this.#connection.lastUse = this.#all.uses;
  }

  #change(bytes: number): void {
    this.#bytes += bytes;
    this.#connection.bytes += bytes;
    this.#all.bytes += bytes;
  }
}
