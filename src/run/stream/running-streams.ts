import type { Clock } from "../../base/clock.ts";
import type { Reservation } from "../../http/handler.ts";
import { overloaded } from "../../limit/byte-budget.ts";
import { streamTurns } from "../../limit/stream-turns.ts";
import { fail, Refusal } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import { appFailed, appTimedOut, type Pieces, type Run } from "../runner.ts";
import type { PieceSource } from "./piece-source.ts";

/**
 * The streams under way. Their limits stand here for all kinds of backends: the time of a stream,
 * the silence of its app, and the bytes of its output.
 */
export class RunningStreams {
  readonly #clock: Clock;
  readonly #bounds: StreamBounds;
  readonly #running = new Set<RunningStream>();

  constructor(clock: Clock, bounds: StreamBounds) {
    this.#clock = clock;
    this.#bounds = bounds;
  }

  /**
   * Starts the run, with all limits of a stream. Promises what `StreamRunner` does. The deadline is
   * in monotonic time.
   */
  async open(run: Run, start: (deadlineMs: number) => PieceSource): Promise<Pieces> {
    const { signal, app } = run;
    signal.throwIfAborted();
    const timeoutMs = app.streamTimeoutMs;
    const source = start(this.#clock.monotonicMs() + timeoutMs);
    const stream = new RunningStream(source, { timeoutMs, ...this.#bounds });
    signal.addEventListener("abort", () => stream.end(signal.reason), { once: true });
    this.#running.add(stream);
    stream.over.then(() => this.#running.delete(stream));
    await stream.begun();
    return stream;
  }

  /** Ends all streams with this refusal. Resolves when their exchanges are over. */
  async end(reason: Refusal): Promise<void> {
    const all = [...this.#running];
    for (const stream of all) stream.end(reason);
    await Promise.all(all.map((stream) => stream.over));
  }
}

interface StreamBounds {
  /** The longest time without a message of the app while its reader waits for one. */
  readonly silenceMsMax: number;
  /** Bytes of UTF-8 that all pieces of one stream may have. */
  readonly bytesMax: number;
}

/** One stream: the texts of its source, and the limits that end it. */
class RunningStream implements Pieces, AsyncIterator<string> {
  readonly #source: PieceSource;
  readonly #bytesMax: number;
  readonly #deadline: NodeJS.Timeout;
  readonly #silence: NodeJS.Timeout;
  #isWaiting = true;
  #bytes = 0;
  #hasGiven = false;
  #isOver = false;
  /** What the source gave and is no text that can be joined. */
  #peeked: PieceSource["next"] | undefined;
  /** Why it ended before its end. The next piece that is asked for gets it. */
  #refusal: unknown;
  readonly #ended = Promise.withResolvers<void>();
  /** Resolves when the stream has ended, and its exchange is over. */
  readonly over: Promise<void>;

  constructor(
    source: PieceSource,
    { timeoutMs, silenceMsMax, bytesMax }: StreamBounds & { readonly timeoutMs: number },
  ) {
    this.#source = source;
    this.over = this.#ended.promise.then(() => source.over);
    this.#bytesMax = bytesMax;
    const late = () => this.end(appTimedOut(`The stream did not end within ${timeoutMs} ms.`));
    this.#deadline = setTimeout(late, timeoutMs);
    this.#silence = setTimeout(() => {
      if (this.#isWaiting) this.end(appTimedOut(`No message of the app for ${silenceMsMax} ms.`));
    }, silenceMsMax);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Resolves when the app has begun to answer. */
  async begun(): Promise<void> {
    try {
      await this.#source.begun;
      this.#isWaiting = false;
    } catch (thrown) {
      this.end(thrown);
      throw thrown;
    }
  }

  /** Ask for one piece at a time. */
  async next(): Promise<IteratorResult<string, undefined>> {
    const value = await this.#nextText().catch((thrown) => this.end(thrown));
    if (value !== undefined) return { done: false, value };
    this.end(undefined);
    const refusal = this.#refusal;
    this.#refusal = undefined;
    if (refusal !== undefined) throw refusal;
    return ended;
  }

  /** The reader wants no more: the app's call is cancelled. */
  async return(): Promise<IteratorResult<string, undefined>> {
    this.end(undefined);
    this.#refusal = undefined;
    return ended;
  }

  /** Ends the stream, with this refusal if it is one, unless it is over. */
  end(refusal: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#refusal = refusal;
    this.#ended.resolve();
    clearTimeout(this.#deadline);
    clearTimeout(this.#silence);
    this.#source.cancel(refusal instanceof Refusal ? refusal : fail("CANCELLED", { mayHaveRun: true }));
  }

  async #nextText(): Promise<string | undefined> {
    while (!this.#isOver) {
      let text = this.#takeNext();
      if (text instanceof Promise) {
        this.#silence.refresh();
        this.#isWaiting = true;
        text = await text;
        this.#isWaiting = false;
      }
      if (text === undefined) return undefined;
      if (text !== "") return this.#joined(this.#checked(text));
    }
    return undefined;
  }

  /**
   * The text, and behind it those that are there already: a message for each word would cost many
   * times as much. The first text goes alone, so that its reader has it at once.
   */
  #joined(first: string): string {
    if (!this.#hasGiven) {
      this.#hasGiven = true;
      return first;
    }
    const enoughBytes = this.#bytes - Buffer.byteLength(first) + runBounds.streamJoinedBytes;
    const texts = [first];
    while (this.#bytes < enoughBytes && streamTurns.mayGoOn()) {
      const text = this.#textThatIsThere();
      if (text === undefined) break;
      texts.push(text);
    }
    return texts.join("");
  }

  /** Keeps for `next` what has to be waited for, a failure, and the end. */
  #textThatIsThere(): string | undefined {
    try {
      const text = this.#source.next();
      if (typeof text === "string") return this.#checked(text);
      // It may fail before it is asked for.
      text?.catch(() => {});
      this.#peeked = () => text;
    } catch (thrown) {
      this.#peeked = () => {
        throw thrown;
      };
    }
    return undefined;
  }

  #takeNext(): ReturnType<PieceSource["next"]> {
    const peeked = this.#peeked;
    this.#peeked = undefined;
    return peeked === undefined ? this.#source.next() : peeked();
  }

  #checked(text: string): string {
    this.#bytes += Buffer.byteLength(text);
    if (this.#bytes > this.#bytesMax) throw appFailed(`The output has more than ${this.#bytesMax} bytes.`);
    // JSON can hold half of a surrogate pair; UTF-8 and Protobuf can't.
    if (!text.isWellFormed()) throw appFailed("The output is not Unicode: it holds a lone surrogate.");
    return text;
  }
}

const ended: IteratorResult<string, undefined> = { done: true, value: undefined };

/**
 * The whole output of an app that streams, of at most `bytesMax` bytes of UTF-8. Settles after the
 * exchange is over.
 */
export async function wholeOutput(
  source: PieceSource,
  bytesMax: number,
  reservation: Reservation,
): Promise<string> {
  let whole = "";
  // Joined many at once: to add each one alone would keep an object of 32 bytes for it.
  let texts: string[] = [];
  let bytes = 0;
  let reservedBytes = 0;
  try {
    for (;;) {
      if (!streamTurns.mayGoOn()) await streamTurns.turn();
      const next = source.next();
      const text = next instanceof Promise ? await next : next;
      if (text === undefined) return whole + texts.join("");
      const more = Buffer.byteLength(text);
      bytes += more;
      if (bytes > bytesMax) throw appFailed(`The output has more than ${bytesMax} bytes.`);
      if (bytes > reservedBytes) {
        const wanted = Math.min(bytesMax, 2 * bytes);
        if (!reservation.reserve(wanted - reservedBytes)) throw overloaded({ mayHaveRun: true });
        reservedBytes = wanted;
      }
      texts.push(text);
      if (texts.length < textsJoined) continue;
      whole += texts.join("");
      texts = [];
    }
  } catch (thrown) {
    if (thrown instanceof Refusal) source.cancel(thrown);
    throw thrown;
  } finally {
    await source.over;
  }
}

const textsJoined = 1_024;
