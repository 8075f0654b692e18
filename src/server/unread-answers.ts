/**
 * Counts the bytes of answers that were passed to Node and that their callers have not read.
 * Nothing in Node bounds them: HTTP/2's flow control keeps an answer in memory for as long as its
 * caller does not open the window. There is one bound for a connection and one for the process.
 */

import type { TransportLimits } from "./transport.ts";

type UnreadLimits = Pick<
  TransportLimits,
  "unreadBytesMax" | "unreadBytesPerConnectionMax" | "littleUnreadBytesMax" | "unreadAnswerBytes"
>;

/** The unread answers of all connections. */
export class UnreadAnswers {
  readonly limits: UnreadLimits;
  readonly #connections = new WeakMap<object, UnreadConnection>();
  /** The bytes of all connections. An answer counts with what Node keeps for it. */
  bytes = 0;

  constructor(limits: UnreadLimits) {
    this.limits = limits;
  }

  /** Returns the counts of a connection: of its socket, or of its session over HTTP/2. */
  of(connection: object): UnreadConnection {
    const known = this.#connections.get(connection);
    if (known !== undefined) return known;
    const added: UnreadConnection = { requests: 0, bytes: 0, onRightKey: undefined };
    this.#connections.set(connection, added);
    return added;
  }
}

/** The counts of one connection. */
export interface UnreadConnection {
  /** Its requests that are not finished. */
  requests: number;
  /** What its caller has not read. */
  bytes: number;
  /** Called once, with the first request whose key is right. */
  onRightKey: (() => void) | undefined;
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

  /** The key of the request is right. */
  noteRightKey(): void {
    const { onRightKey } = this.#connection;
    this.#connection.onRightKey = undefined;
    onRightKey?.();
  }

  /** Whether a request may begin, although its answer may be large. */
  mayBegin(): boolean {
    return this.#connection.bytes < this.#all.limits.unreadBytesPerConnectionMax && this.hasRoom(0);
  }

  /**
   * Whether the process has room for an answer of so many bytes. The last quarter is for
   * connections with little to read, so that callers who read are answered beside those who do not.
   */
  hasRoom(bytes: number): boolean {
    const { unreadBytesMax, littleUnreadBytesMax, unreadAnswerBytes } = this.#all.limits;
    const size = bytes + unreadAnswerBytes;
    const isLittle = this.#connection.bytes + size <= littleUnreadBytesMax;
    return this.#all.bytes + size <= (isLittle ? unreadBytesMax : 0.75 * unreadBytesMax);
  }

  /** Counts bytes that are passed to Node. */
  add(bytes: number): void {
    this.#change(this.#bytes === 0 ? bytes + this.#all.limits.unreadAnswerBytes : bytes);
  }

  /** Counts bytes as read. After `end` it does nothing. */
  remove(bytes: number): void {
    const left = this.#bytes - bytes;
    this.#change(left > this.#all.limits.unreadAnswerBytes ? -bytes : -this.#bytes);
  }

  /** Called once, when the answer is read or its caller is gone. */
  end(): void {
    this.#change(-this.#bytes);
    this.#connection.requests -= 1;
  }

  #change(bytes: number): void {
    this.#bytes += bytes;
    this.#connection.bytes += bytes;
    this.#all.bytes += bytes;
  }
}
