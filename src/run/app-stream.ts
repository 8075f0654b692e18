import { create } from "@bufbuild/protobuf";
import { type StreamAppResponse, StreamAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { unlessAborted } from "../http/handler.ts";
import { aboutApp, fail, Refusal } from "../refusal/refusal.ts";
import { runBounds } from "./run-bounds.ts";
import type { RunSlots } from "./run-slots.ts";
import type { Run, StreamRunner } from "./runner.ts";
import type { CheckRight, RightsWatch, WatchRights } from "./watch-rights.ts";

/**
 * The messages of one stream: `started` as soon as the app has begun to answer, or at the latest
 * after `startMsMax`, then its output in deltas. It holds one slot of the app until its end. The
 * app is asked for the next piece only when the caller has taken everything before it. The rights
 * are checked with each message. The app's call ends at once when the caller is gone, a right is
 * gone, or the iterator is returned, even while it waits for the app: therefore this is no
 * generator.
 */
export class AppStream implements AsyncIterableIterator<StreamAppResponse, undefined> {
  readonly #parts: AppStreamParts;
  readonly #request: Promise<StreamRequest>;
  #run: Run | undefined;
  #pieces: Promise<AsyncIterator<string>> | undefined;
  #rights: RightsWatch | undefined;
  #piece = "";
  /** How much of the piece was passed on. */
  #passed = 0;
  /** Ends the call of the app, and every wait for it. */
  readonly #ending = new AbortController();
  #isOver = false;
  #release = () => {};

  constructor(parts: AppStreamParts, request: Promise<StreamRequest>) {
    this.#parts = parts;
    this.#request = request;
    // The one that returns it may not have asked for a message.
    request.catch(() => {});
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Next> {
    if (this.#isOver) return over;
    try {
      const value = await (this.#pieces === undefined ? this.#start() : this.#nextDelta(this.#pieces));
      if (value !== undefined) return { done: false, value };
      this.#close();
      return over;
    } catch (thrown) {
      // It was returned meanwhile.
      if (this.#isOver) return over;
      this.#close();
      const appId = this.#run?.app.id;
      throw thrown instanceof Refusal && appId !== undefined ? aboutApp(thrown, appId) : thrown;
    }
  }

  async return(): Promise<Next> {
    if (this.#isOver) return over;
    this.#close();
    this.#end(fail("CANCELLED"));
    return over;
  }

  async #start(): Promise<StreamAppResponse | undefined> {
    const { run: asked, checkRight } = await this.#request;
    if (this.#isOver) return undefined;
    const run = this.#runOf(asked);
    this.#run = run;
    const caller = asked.signal;
    caller.addEventListener("abort", () => this.#end(caller.reason), { once: true });
    if (caller.aborted) throw caller.reason;
    const { stream, slots, watchRights, startMsMax } = this.#parts;
    const releaseSlot = slots.acquire(run.app, run.teamId);
    const rights = watchRights(checkRight, (refusal) => this.#end(refusal));
    this.#rights = rights;
    this.#release = () => {
      releaseSlot();
      rights.stop();
    };
    this.#pieces = stream(run).then((pieces) => pieces[Symbol.asyncIterator]());
    await this.#begun(this.#pieces, startMsMax);
    return startedMessage(run);
  }

  /** The run as the app's runner gets it: it also ends when the stream does. */
  #runOf(asked: Run): Run {
    return {
      runId: asked.runId,
      teamId: asked.teamId,
      keyId: asked.keyId,
      app: asked.app,
      text: asked.text,
      reservation: asked.reservation,
      requestId: asked.requestId,
      traceContext: asked.traceContext,
      callerMsLeft: () => asked.callerMsLeft?.(),
      signal: this.#ending.signal,
    };
  }

  /** Resolves when the app has begun to answer, or after this time. */
  async #begun(pieces: Promise<unknown>, msMax: number): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, msMax);
    try {
      await Promise.race([unlessAborted(pieces, this.#ending.signal), late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Returns undefined at the end of the output. */
  async #nextDelta(pieces: Promise<AsyncIterator<string>>): Promise<StreamAppResponse | undefined> {
    if (this.#passed === this.#piece.length) {
      const begun = await unlessAborted(pieces, this.#ending.signal);
      const next = await unlessAborted(begun.next(), this.#ending.signal);
      if (next.done) return undefined;
      this.#piece = next.value;
      this.#passed = 0;
    }
    this.#rights?.check();
    this.#ending.signal.throwIfAborted();
    const text = cutPiece(this.#piece, this.#passed, runBounds.streamDeltaBytesMax);
    this.#passed += text.length;
    // What was passed on is not kept while the caller is slow.
    if (this.#passed === this.#piece.length) this.#forgetPiece();
    return deltaMessage(text);
  }

  #forgetPiece(): void {
    this.#piece = "";
    this.#passed = 0;
  }

  /** Ends the app's call at once, whether or not somebody waits for the next message. */
  #end(refusal: Refusal): void {
    if (this.#ending.signal.aborted) return;
    this.#forgetPiece();
    this.#releaseOnce();
    this.#ending.abort(refusal);
  }

  #close(): void {
    this.#isOver = true;
    this.#releaseOnce();
    this.#pieces?.then((pieces) => pieces.return?.()).catch(() => {});
  }

  #releaseOnce(): void {
    const release = this.#release;
    this.#release = () => {};
    release();
  }
}

type Next = IteratorResult<StreamAppResponse, undefined>;

const over: Next = { done: true, value: undefined };

export interface AppStreamParts {
  readonly stream: StreamRunner;
  readonly slots: RunSlots;
  readonly watchRights: WatchRights;
  /** How long the first message waits for an app that does not begin to answer. */
  readonly startMsMax: number;
}

/** What a stream runs, and the check of the rights that it needs until its end. */
export interface StreamRequest {
  readonly run: Run;
  readonly checkRight: CheckRight;
}

function startedMessage({ runId, app }: Run): StreamAppResponse {
  return create(StreamAppResponseSchema, { event: { case: "started", value: { runId, appId: app.id } } });
}

function deltaMessage(text: string): StreamAppResponse {
  return create(StreamAppResponseSchema, { event: { case: "delta", value: { text } } });
}

/**
 * Returns the text from this place on, up to so many bytes of UTF-8, cut between code points. The
 * text is well-formed. `bytesMax` is at least 4, so a code point always fits.
 */
export function cutPiece(text: string, from: number, bytesMax: number): string {
  // A code unit takes at most three bytes.
  if (3 * (text.length - from) <= bytesMax) return from === 0 ? text : text.slice(from);
  const rest = text.slice(from, from + bytesMax);
  const { read } = encoder.encodeInto(rest, new Uint8Array(bytesMax));
  return rest.slice(0, read);
}

const encoder = new TextEncoder();
