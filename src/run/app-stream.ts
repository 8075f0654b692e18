import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type StreamAppResponse, StreamAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { unlessLate } from "../http/handler.ts";
import { aboutApp, fail, Refusal } from "../refusal/refusal.ts";
import { runBounds } from "./run-bounds.ts";
import type { RunSlots } from "./run-slots.ts";
import type { Run, StreamPiece, StreamRunner } from "./runner.ts";
import type { CheckRight, WatchRights } from "./watch-rights.ts";

/**
 * The messages of one stream: `started` as soon as the app has begun to answer, or at the latest
 * after `startMsMax`, then the text in deltas, and the JSON. The app is asked for more only when
 * the caller has taken everything before it. The rights are checked with each message.
 *
 * The app's call ends and its slot is free as soon as the signal of the run is aborted or a right
 * is gone, whether or not somebody waits for a message. While one is waited for, to return the
 * iterator waits, too: so a transport aborts the signal when its caller takes no more.
 */
export async function* appStream(
  { stream, slots, watchRights, startMsMax }: AppStreamParts,
  run: Run,
  checkRight: CheckRight,
): AsyncGenerator<StreamAppResponse, void> {
  const { app } = run;
  const ended = new AbortController();
  const { signal } = ended;
  try {
    run.signal.throwIfAborted();
    run.signal.addEventListener("abort", () => ended.abort(run.signal.reason), { once: true });
    const releaseSlot = slots.acquire(app, run.teamId);
    const rights = watchRights(checkRight, (refusal) => ended.abort(refusal));
    signal.addEventListener("abort", () => {
      releaseSlot();
      rights.stop();
    });
    const pieces = stream(runUntil(signal, run));
    const first = pieces.next();
    await unlessLate(first, startMsMax);
    yield startedMessage(run);
    for (let next = await first; !next.done; next = await pieces.next()) {
      for (const message of messagesOf(next.value)) {
        rights.check();
        signal.throwIfAborted();
        yield message;
      }
    }
  } catch (thrown) {
    throw thrown instanceof Refusal ? aboutApp(thrown, app.id) : thrown;
  } finally {
    ended.abort(fail("CANCELLED"));
  }
}

export interface AppStreamParts {
  readonly stream: StreamRunner;
  readonly slots: RunSlots;
  readonly watchRights: WatchRights;
  /** How long the first message waits for an app that does not begin to answer. */
  readonly startMsMax: number;
}

/** The run as the app's runner gets it: it ends when the stream does. */
function runUntil(signal: AbortSignal, run: Run): Run {
  const { runId, teamId, keyId, app, text, input, reservation, requestId, traceContext } = run;
  const callerMsLeft = () => run.callerMsLeft?.();
  const given = { runId, teamId, keyId, app, text, input, reservation, requestId, traceContext };
  return { ...given, callerMsLeft, signal };
}

function startedMessage({ runId, app }: Run): StreamAppResponse {
  return create(StreamAppResponseSchema, { event: { case: "started", value: { runId, appId: app.id } } });
}

function deltaMessage(text: string): StreamAppResponse {
  return create(StreamAppResponseSchema, { event: { case: "delta", value: { text } } });
}

function outputMessage(output: JsonValue): StreamAppResponse {
  const value = fromJson(ValueSchema, output);
  return create(StreamAppResponseSchema, { event: { case: "output", value } });
}

function* messagesOf(piece: StreamPiece): Generator<StreamAppResponse> {
  if (typeof piece !== "string") yield outputMessage(piece.output);
  else for (const text of deltasOf(piece)) yield deltaMessage(text);
}

/** The text in parts of at most `streamDeltaBytesMax`. An empty text has none. */
function* deltasOf(text: string): Generator<string> {
  for (let from = 0; from < text.length; ) {
    const part = cutPiece(text, from, runBounds.streamDeltaBytesMax);
    yield part;
    from += part.length;
  }
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
