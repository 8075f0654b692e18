import { streamTurns } from "../../limit/stream-turns.ts";
import type { Refusal } from "../../refusal/refusal.ts";

/** The exchange of one streamed run with its app, read as fast as its reader asks. */
export interface PieceSource {
  /**
   * Resolves when the app has begun to answer. Rejects with APP_UNREACHABLE if it is certain that
   * no part of the run was sent, with APP_TIMEOUT, APP_REFUSED or APP_BUSY if the app says so, and
   * otherwise with APP_FAILED.
   */
  readonly begun: Promise<void>;
  /**
   * The text of the next message. An empty text only says that the app is at work. Undefined at the
   * end of a whole output. Throws, or rejects, as `begun` does, after the texts that came before.
   * What was read and not asked for is bounded, however long it is not asked for. Call it again
   * only after it has settled, and not after a failure.
   */
  next(): string | undefined | Promise<string | undefined>;
  /**
   * Ends the exchange at once, unless it is over. What is waited for rejects with this refusal, but
   * with APP_UNREACHABLE if the reason is APP_TIMEOUT and no part of the run was sent.
   */
  cancel(reason: Refusal): void;
  /** Resolves when the exchange is completely over on this side. Never rejects. */
  readonly over: Promise<void>;
}

/**
 * Hands what comes over to the one who waits for it: a promise that is made only where somebody
 * waits.
 */
export class Mailbox<Item> {
  #waiting: PromiseWithResolvers<Item> | undefined;
  #hasAsked = false;

  /** Resolves with the next item. Call it again only after that. */
  wait(): Promise<Item> {
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }

  /**
   * Calls `hand` in a turn of the stream's own, if somebody waits now and still does then. Asked
   * again before that, it does nothing.
   */
  inTurn(hand: () => void): void {
    if (this.#hasAsked || this.#waiting === undefined) return;
    this.#hasAsked = true;
    streamTurns.ask(() => {
      this.#hasAsked = false;
      if (this.#waiting !== undefined) hand();
    });
  }

  /** Call it only where somebody waits. */
  put(item: Item): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(item);
  }

  /** Does nothing where nobody waits. */
  fail(reason: unknown): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(reason);
  }
}
