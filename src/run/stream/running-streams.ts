import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import type { Reservation } from "../../http/handler.ts";
import type { Refusal } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import { appFailed, appTimedOut, type Run, type StreamLimits } from "../runner.ts";
import { ByteBuffer } from "./byte-buffer.ts";

/**
 * The streams under way. Their limits stand here for all kinds of backends: the time of a stream,
 * the silence of its app, and the bytes of its output.
 */
export class RunningStreams {
  readonly #clock: Clock;
  readonly #silenceMsMax: number;
  readonly #running = new Set<AbortController>();

  /** `silenceMsMax` is the longest time without a message of the app while its reader waits. */
  constructor(clock: Clock, silenceMsMax: number) {
    this.#clock = clock;
    this.#silenceMsMax = silenceMsMax;
  }

  /** Starts the run, with all limits of a stream. Promises what `StreamRunner` does. */
  async *stream(
    run: Run,
    start: (limits: StreamLimits) => AsyncIterable<string>,
  ): AsyncGenerator<string, void> {
    const { streamTimeoutMs } = run.app;
    run.signal.throwIfAborted();
    const ended = new AbortController();
    const { signal } = ended;
    run.signal.addEventListener("abort", () => ended.abort(run.signal.reason), { once: true });
    this.#running.add(ended);
    const deadline = setTimeout(() => {
      ended.abort(appTimedOut(`The stream did not end within ${streamTimeoutMs} ms.`));
    }, streamTimeoutMs);
    let isWaiting = true;
    const silence = setTimeout(() => {
      if (isWaiting) ended.abort(appTimedOut(`No message of the app for ${this.#silenceMsMax} ms.`));
    }, this.#silenceMsMax);
    try {
      const deadlineMs = this.#clock.monotonicMs() + streamTimeoutMs;
      const texts = start({ deadlineMs, signal, alive: () => silence.refresh() });
      let bytes = 0;
      for await (const text of wholeCharacters(texts)) {
        signal.throwIfAborted();
        bytes += Buffer.byteLength(text);
        if (bytes > runBounds.appStreamBytesMax) throw appFailed(tooMany(runBounds.appStreamBytesMax));
        isWaiting = false;
        yield text;
        isWaiting = true;
        silence.refresh();
      }
    } finally {
      clearTimeout(deadline);
      clearTimeout(silence);
      this.#running.delete(ended);
    }
  }

  /** Ends all streams with this refusal. */
  end(reason: Refusal): void {
    for (const stream of this.#running) stream.abort(reason);
  }
}

/** The whole output of an app that streams, of at most `bytesMax` bytes of UTF-8. */
export async function wholeOutput(
  texts: AsyncIterable<string>,
  bytesMax: number,
  reservation: Reservation,
): Promise<string> {
  const output = new ByteBuffer(bytesMax, tooMany(bytesMax), reservation);
  for await (const text of wholeCharacters(texts)) output.append(Buffer.from(text));
  return output.take().toString();
}

const tooMany = (bytesMax: number) => `The output has more than ${bytesMax} bytes.`;

/**
 * The same texts, cut so that each character is in one of them, and with a turn of the event loop
 * for everything else after each. JSON can hold the half of a character that UTF-16 writes in two
 * units, as where an app cuts its text between them: the first half waits for the next text. Throws
 * APP_FAILED where a half is alone, after the text before it.
 */
async function* wholeCharacters(texts: AsyncIterable<string>): AsyncGenerator<string, void> {
  let half = "";
  for await (const text of texts) {
    const joined = half + text;
    const lastUnit = joined.charCodeAt(joined.length - 1);
    half = lastUnit >= 0xd800 && lastUnit <= 0xdbff ? joined.slice(-1) : "";
    const whole = half === "" ? joined : joined.slice(0, -1);
    if (!whole.isWellFormed()) {
      yield whole.slice(0, whole.search(loneHalf));
      throw notUnicode();
    }
    yield whole;
    await setImmediate();
  }
  if (half !== "") throw notUnicode();
}

const loneHalf = /\p{Surrogate}/u;

function notUnicode() {
  return appFailed("The output is not Unicode: it holds a lone surrogate.");
}
