import { fail, type Refusal } from "../../refusal/refusal.ts";
import { type Incoming, isGone, type NodeRequest } from "../node-http.ts";
import { continueIfExpected, isCutOff } from "./request-body.ts";

type Next = IteratorResult<Uint8Array, undefined>;

/**
 * Iterates over the chunks of a request's body. Chunks that are not taken wait with the sender.
 * Node's own iterator would destroy the connection if the reader stopped early.
 */
export class BodyChunks implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #req: NodeRequest;
  #waiting: PromiseWithResolvers<Next> | undefined;
  #isOver = false;
  #failure: Refusal | undefined;

  constructor(incoming: Incoming) {
    const { req, res } = incoming;
    this.#req = req;
    if (isGone(res) || req.destroyed) {
      this.fail(fail("CANCELLED"));
      return;
    }
    continueIfExpected(incoming);
    req.on("readable", this.#onReadable).on("end", this.#onEnd).on("close", this.#onClose);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Next> {
    if (this.#waiting !== undefined) throw new Error("a chunk of the body is awaited already");
    const value = this.#isOver ? null : this.#req.read();
    if (value !== null) return Promise.resolve({ done: false, value });
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#isOver) return Promise.resolve({ done: true, value: undefined });
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }

  /** Stops reading. The rest of the body stays in the request, and is dropped with the response. */
  return(): Promise<Next> {
    this.#end();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Ends the body with an error, because the rest will not come. */
  fail(reason: Refusal): void {
    if (this.#isOver) return;
    this.#failure = reason;
    this.#end();
  }

  readonly #onReadable = () => {
    if (this.#waiting === undefined) return;
    const value: Buffer | null = this.#req.read();
    if (value === null) return;
    const { resolve } = this.#waiting;
    this.#waiting = undefined;
    resolve({ done: false, value });
  };

  readonly #onEnd = () => (isCutOff(this.#req) ? this.fail(fail("CANCELLED")) : this.#end());
  readonly #onClose = () => this.fail(fail("CANCELLED"));

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#req.off("readable", this.#onReadable).off("end", this.#onEnd).off("close", this.#onClose);
    if (this.#failure !== undefined) this.#waiting?.reject(this.#failure);
    else this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
  }
}
