import type { BodyOutcome } from "../../http/handler.ts";
import type { Refusal } from "../../refusal/refusal.ts";
import { type Incoming, isGone } from "../node-http.ts";
import type { TransportLimits } from "../transport-limits.ts";
import { BodyChunks } from "./body-chunks.ts";
import { bodyAtHand, dropBody, readBody } from "./request-body.ts";

/**
 * The body of one request. It is read whole or in chunks, once; the rest is dropped with the
 * response.
 */
export class ExchangeBody {
  readonly #incoming: Incoming;
  #state: "unasked" | "asked" | "read" = "unasked";
  #chunks: BodyChunks | undefined;
  #end: ((outcome: BodyOutcome) => void) | undefined;
  #dropping: boolean | undefined;

  constructor(incoming: Incoming) {
    this.#incoming = incoming;
  }

  /** Returns the outcome if it is known without waiting, otherwise undefined. */
  atHand(bytesMax: number): BodyOutcome | undefined {
    this.#ask();
    const atHand = bodyAtHand(this.#incoming, bytesMax);
    if (atHand?.kind === "whole") this.#state = "read";
    return atHand;
  }

  /** Reads the whole body, after `atHand` returned undefined. */
  read(bytesMax: number): Promise<BodyOutcome> {
    return new Promise((resolve) => {
      this.#end = readBody(this.#incoming, { bytesMax, done: resolve });
    });
  }

  chunks(): BodyChunks {
    this.#ask();
    this.#chunks = new BodyChunks(this.#incoming);
    return this.#chunks;
  }

  /** Ends the reading: the body is gone, for this reason. */
  giveUp(reason: Refusal): void {
    this.#end?.({ kind: "gone", reason });
    this.#chunks?.fail(reason);
  }

  /**
   * Called with the response. Reads and drops the rest of the body, so that the sender can finish
   * and read the response, and then ends the response. Returns whether anything was left.
   */
  drop(limits: TransportLimits): boolean {
    this.#end?.({ kind: "gone" });
    void this.#chunks?.return();
    if (this.#state === "read" || isGone(this.#incoming.res)) return false;
    this.#dropping ??= dropBody(this.#incoming, limits, () => this.#incoming.res.end());
    return this.#dropping;
  }

  #ask(): void {
    if (this.#state !== "unasked") throw new Error("the body was asked for twice");
    this.#state = "asked";
  }
}
