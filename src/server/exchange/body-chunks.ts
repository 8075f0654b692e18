import type { BodyChunkSource, BytesOfBody } from "../../http/handler.ts";
import { type HeldBytes, overloaded } from "../../limit/byte-budget.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import { type Incoming, isGone } from "../node-http.ts";
import type { ArrivingBody } from "./arriving-body.ts";

/** Counts what has arrived and what was taken. */
interface Memory {
  readonly held: HeldBytes | undefined;
  readonly bytesOf: BytesOfBody;
}

type Next = IteratorResult<Uint8Array, undefined>;

/**
 * Iterates over a request's body, as much at once as has arrived. Node's own iterator would destroy
 * the connection if the reader stopped early.
 */
export class BodyChunks implements AsyncIterableIterator<Uint8Array, undefined>, BodyChunkSource {
  readonly #body: ArrivingBody;
  readonly #memory: Memory;
  /** The bytes of the chunks that were taken. */
  #takenBytes = 0;
  #waiting: PromiseWithResolvers<Next> | undefined;
  #isOver = false;
  #failure: Refusal | undefined;

  constructor({ req, res }: Incoming, body: ArrivingBody, memory: Memory) {
    this.#body = body;
    this.#memory = memory;
    if (isGone(res) || (req.destroyed && body.end !== "whole")) this.fail(fail("CANCELLED"));
    else body.watch(() => this.#onChange());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Next> {
    if (this.#waiting !== undefined) throw new Error("a chunk of the body is awaited already");
    this.#waiting = Promise.withResolvers();
    const { promise } = this.#waiting;
    this.#onChange();
    return promise;
  }

  /** Stops reading. The rest of the body stays in the request, and is dropped with the response. */
  return(): Promise<Next> {
    this.release();
    this.#end();
    return Promise.resolve({ done: true, value: undefined });
  }

  release(): void {
    this.#memory.held?.release();
  }

  /** Ends the body with an error, because the rest will not come. */
  fail(reason: Refusal): void {
    if (this.#isOver) return;
    this.#failure = reason;
    this.release();
    this.#end();
  }

  #onChange(): void {
    if (this.#body.end === "cut_off") this.fail(fail("CANCELLED"));
    else if (!this.#hasRoom()) this.fail(overloaded());
    if (this.#waiting === undefined) return;
    if (this.#isOver) this.#settle();
    else if (this.#body.size > 0) this.#take();
    else if (this.#body.end === "whole") this.#end();
  }

  #hasRoom(): boolean {
    const { held, bytesOf } = this.#memory;
    return this.#isOver || held?.takeUpTo(bytesOf(this.#takenBytes + this.#body.size)) !== false;
  }

  #take(): void {
    this.#takenBytes += this.#body.size;
    this.#answer({ done: false, value: this.#body.take() });
  }

  #answer(next: Next): void {
    this.#waiting?.resolve(next);
    this.#waiting = undefined;
  }

  #end(): void {
    this.#isOver = true;
    this.#body.watch(() => {});
    this.#settle();
  }

  #settle(): void {
    if (this.#failure !== undefined) this.#waiting?.reject(this.#failure);
    else this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
  }
}
