import { ownTurn } from "../../base/clock.ts";
import type { BodyOutcome, BytesOfBody } from "../../http/handler.ts";
import { headerOf, type RequestHead } from "../../http/request-head.ts";
import { type HeldBytes, overloaded } from "../../limit/byte-budget.ts";
import type { Refusal } from "../../refusal/refusal.ts";
import { type Incoming, isGone, isHttp2Request, isHttp2Response, type NodeRequest } from "../node-http.ts";
import type { TransportLimits } from "../transport.ts";
import { ArrivingBody, ownMemory, wholeBody } from "./arriving-body.ts";
import { BodyChunks } from "./body-chunks.ts";

/**
 * The body of one request. It is read whole or in chunks, once; the rest is dropped with the
 * response.
 */
export class ExchangeBody {
  readonly #incoming: Incoming;
  readonly #limits: TransportLimits;
  #state: "unasked" | "asked" | "read" = "unasked";
  #arriving: ArrivingBody | undefined;
  #chunks: BodyChunks | undefined;
  #end: ((outcome: BodyOutcome) => void) | undefined;
  #dropping: boolean | undefined;

  constructor(incoming: Incoming, limits: TransportLimits) {
    this.#incoming = incoming;
    this.#limits = limits;
    if (mayComeInManyChunks(incoming)) this.#collect();
  }

  /**
   * Returns the outcome if it is known without waiting: the body has arrived whole and is not long,
   * its announced length is over `bytesMax`, or the rest will never come. Otherwise undefined: then
   * call `read`.
   */
  atHand(bytesMax: number): BodyOutcome | undefined {
    this.#ask();
    const { head, req, res } = this.#incoming;
    if (isGone(res) || (req.destroyed && this.#arriving?.end !== "whole")) return { kind: "gone" };
    if (declaredBytes(head, req) > bytesMax) return { kind: "too_large" };
    // If the caller expects a 100 and gets none, Node closes the connection.
    if (headerOf(head, "expect") !== undefined) return undefined;
    if ((this.#arriving?.size ?? req.readableLength) >= longBodyBytes) return undefined;
    const outcome = this.#arriving ? outcomeOf(this.#arriving, bytesMax) : readAtOnce(req, bytesMax);
    if (outcome?.kind === "whole") this.#state = "read";
    return outcome;
  }

  /**
   * Reads the whole body, after `atHand` returned undefined. At the first byte over `bytesMax` the
   * outcome is `too_large`. While it waits, `held` counts what has arrived; where there is no room
   * for it, the outcome is OVERLOADED.
   */
  read(bytesMax: number, held?: HeldBytes): Promise<BodyOutcome> {
    continueIfExpected(this.#incoming);
    const arriving = this.#collect();
    return new Promise((resolve) => {
      this.#end = (outcome) => {
        this.#end = undefined;
        arriving.watch(() => {});
        held?.release();
        resolve(outcome);
      };
      const look = () => {
        const outcome = outcomeOf(arriving, bytesMax);
        if (outcome?.kind === "whole" && outcome.bytes.length >= longBodyBytes) {
          arriving.watch(() => {});
          void ownTurn().then(() => this.#end?.(outcome));
        } else if (outcome !== undefined) this.#end?.(outcome);
        else if (held?.takeUpTo(arriving.size) === false) this.#end?.({ kind: "gone", reason: overloaded() });
      };
      arriving.watch(look);
      arriving.allow(bytesMax);
      look();
    });
  }

  /** Returns the body in chunks. What is not taken waits with the sender, past a bound. */
  chunks(held: HeldBytes | undefined, bytesOf: BytesOfBody): BodyChunks {
    this.#ask();
    this.#chunks = new BodyChunks(this.#incoming, this.#collect(), { held, bytesOf });
    continueIfExpected(this.#incoming);
    return this.#chunks;
  }

  /** Ends the reading: the body is gone, for this reason. */
  giveUp(reason: Refusal): void {
    this.#end?.({ kind: "gone", reason });
    this.#chunks?.fail(reason);
  }

  /**
   * Called with the response. Reads and drops the rest of the body, so that the sender can finish
   * and read the response, and then ends the response. Returns whether the response must not be
   * ended before, because the connection would then close before the rest is read.
   */
  drop(): boolean {
    this.#end?.({ kind: "gone" });
    void this.#chunks?.return();
    if (this.#state === "read" || isGone(this.#incoming.res)) return false;
    this.#dropping ??= this.#drop();
    return this.#dropping && closesAfter(this.#incoming);
  }

  #drop(): boolean {
    const { head, req, res } = this.#incoming;
    if (req.readableEnded || declaredBytes(head, req) === 0) return false;
    this.#collect().drop(this.#limits, () => res.end());
    return true;
  }

  #collect(): ArrivingBody {
    this.#arriving ??= new ArrivingBody(this.#incoming, {
      bytesMax: this.#limits.waitingBodyBytesMax,
      declaredBytes: declaredBytes(this.#incoming.head, this.#incoming.req),
    });
    return this.#arriving;
  }

  #ask(): void {
    if (this.#state !== "unasked") throw new Error("the body was asked for twice");
    this.#state = "asked";
  }
}

/**
 * Whether the bytes that arrive together may be many chunks: over HTTP/1.1 only those with a
 * transfer coding, over HTTP/2 all.
 */
function mayComeInManyChunks({ head, req }: Incoming): boolean {
  if (isHttp2Request(req)) return !req.stream.endAfterHeaders;
  return headerOf(head, "transfer-encoding") !== undefined;
}

function outcomeOf(arriving: ArrivingBody, bytesMax: number): BodyOutcome | undefined {
  if (arriving.size > bytesMax) return { kind: "too_large" };
  if (arriving.end === undefined) return undefined;
  return arriving.end === "whole" ? arriving.takeWhole() : { kind: "gone" };
}

function readAtOnce(req: NodeRequest, bytesMax: number): BodyOutcome | undefined {
  // Over HTTP/2 only a request without a body comes here.
  if (isHttp2Request(req)) return { kind: "whole", bytes: noBytes };
  if (!req.complete) return undefined;
  if (req.readableLength > bytesMax) return { kind: "too_large" };
  const bytes: Buffer = req.read() ?? noBytes;
  return wholeBody(bytes, ownMemory(req, bytes));
}

/**
 * Whether Node would close the connection as soon as the answer ends, and so cut an upload off.
 * False if the caller waits for a 100 before it uploads.
 */
function closesAfter({ head, res }: Incoming): boolean {
  return !isHttp2Response(res) && !res.shouldKeepAlive && headerOf(head, "expect") === undefined;
}

/** Sends `100 Continue` to a caller that waits for it before it sends its body. */
function continueIfExpected({ head, res }: Incoming): void {
  const expect = headerOf(head, "expect");
  if (expect !== undefined && /100-continue/i.test(expect) && head.httpVersion !== "1.0") res.writeContinue();
}

/**
 * Returns the announced length of the body: 0 if there is no body, NaN if no length was announced.
 */
function declaredBytes(head: RequestHead, req: NodeRequest): number {
  const length = headerOf(head, "content-length");
  if (length !== undefined) return Number(length);
  if (isHttp2Request(req)) return req.stream.endAfterHeaders ? 0 : Number.NaN;
  return headerOf(head, "transfer-encoding") === undefined ? 0 : Number.NaN;
}

const noBytes: Buffer = Buffer.alloc(0);

/** To parse and check a body from this length on takes a good part of a millisecond. */
const longBodyBytes = 64 * 1024;
