import { streamTurns } from "../../limit/stream-turns.ts";

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
