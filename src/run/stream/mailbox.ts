/**
 * Hands what comes over to the one who waits for it: a promise that is made only where somebody
 * waits.
 */
export class Mailbox<Item> {
  #waiting: PromiseWithResolvers<Item> | undefined;

  get isWaitedFor(): boolean {
    return this.#waiting !== undefined;
  }

  /** Resolves with the next item. Call it again only after that. */
  wait(): Promise<Item> {
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
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
