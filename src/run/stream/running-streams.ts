import { setImmediate } from "node:timers/promises";
import type { JsonValue } from "@bufbuild/protobuf";
import type { Clock } from "../../base/clock.ts";
import type { Reservation } from "../../http/handler.ts";
import type { Refusal } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import {
  appFailed,
  appTimedOut,
  type Run,
  type RunOutput,
  type StreamLimits,
  type StreamPiece,
} from "../runner.ts";
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
    start: (limits: StreamLimits) => AsyncIterable<StreamPiece>,
  ): AsyncGenerator<StreamPiece, void> {
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
      const pieces = start({ deadlineMs, signal, alive: () => silence.refresh() });
      let bytes = 0;
      for await (const piece of wholeCharacters(pieces)) {
        signal.throwIfAborted();
        if (typeof piece === "string") bytes += Buffer.byteLength(piece);
        if (bytes > runBounds.appStreamBytesMax) throw appFailed(tooMany(runBounds.appStreamBytesMax));
        isWaiting = false;
        yield piece;
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
  pieces: AsyncIterable<StreamPiece>,
  bytesMax: number,
  reservation: Reservation,
): Promise<RunOutput> {
  const texts = new ByteBuffer(bytesMax, tooMany(bytesMax), reservation);
  let output: JsonValue | undefined;
  for await (const piece of wholeCharacters(pieces)) {
    if (typeof piece === "string") texts.append(Buffer.from(piece));
    else output = piece.output;
  }
  const text = texts.take().toString();
  return output !== undefined && text === "" ? { output } : { text, output };
}

const tooMany = (bytesMax: number) => `The output has more than ${bytesMax} bytes.`;

/**
 * The same pieces, the texts cut so that each character is in one of them, and with a turn of the
 * event loop for everything else after each. JSON can hold the half of a character that UTF-16
 * writes in two units, as where an app cuts its text between them: the first half waits for the
 * next text. Throws APP_FAILED where a half is alone, after the text before it, and where anything
 * follows the JSON.
 */
async function* wholeCharacters(pieces: AsyncIterable<StreamPiece>): AsyncGenerator<StreamPiece, void> {
  let half = "";
  let hasOutput = false;
  for await (const piece of pieces) {
    if (hasOutput && piece !== "") throw goesOnAfterOutput();
    if (typeof piece !== "string") {
      if (half !== "") throw notUnicode();
      hasOutput = true;
      yield piece;
      continue;
    }
    const joined = half + piece;
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

/** The refusal for an app that sends anything after its JSON. */
export function goesOnAfterOutput() {
  return appFailed("The stream goes on after its `output`.");
}

const loneHalf = /\p{Surrogate}/u;

function notUnicode() {
  return appFailed("The output is not Unicode: it holds a lone surrogate.");
}
