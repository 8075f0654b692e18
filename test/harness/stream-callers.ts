import { type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type Code, ConnectError, createClient } from "@connectrpc/connect";
import { RunService, type StreamAppResponse } from "#gen/keyrun/v1/run_service_pb.ts";
import type { CallerMaker } from "./callers.ts";
import { detailsOf, keepIn, ofEachTransport, reasonOf } from "./transports.ts";

/** A request for a stream, independent of the protocol. */
export interface StreamRequest {
  readonly appId: string;
  /** Not sent if absent. */
  readonly text?: string;
  readonly input?: JsonObject;
  /** The value of the header. Not sent if absent. */
  readonly authorization?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The caller's deadline, which REST does not have. */
  readonly timeoutMs?: number;
}

export type StreamEvent =
  | { readonly kind: "started"; readonly runId: string; readonly appId: string }
  | { readonly kind: "delta"; readonly text: string }
  | { readonly kind: "output"; readonly output: JsonValue }
  | StreamEnd;

/** How a stream ended, as its caller can tell. */
export type StreamEnd =
  | { readonly kind: "end" }
  | { readonly kind: "refused"; readonly code: Code; readonly reason: string; readonly httpStatus?: number }
  /** The connection ended, and nothing said how the stream did. */
  | { readonly kind: "cut off" };

export function isStreamEnd(event: StreamEvent): event is StreamEnd {
  return !["started", "delta", "output"].includes(event.kind);
}

export interface OpenStream {
  /** The next message, or how the stream ended. */
  next(): Promise<StreamEvent>;
  /** Those that have come so far, with the trailers if the protocol has them. */
  readonly headers: Headers;
  /** What else a refusal before the first message says. */
  readonly refusal: RefusalWords | undefined;
  /** Stops reading, and disconnects or resets the stream. */
  leave(): void;
}

export interface RefusalWords {
  readonly message: string;
  /** In JSON, each with its `@type`. */
  readonly details: readonly JsonValue[];
}

/** One way to stream: a protocol, a version of HTTP and a client library. */
export interface StreamCaller {
  open(order: StreamRequest): OpenStream;
  close(): void;
}

/** Makes a caller of the server at this URL. */
export type StreamCallerMaker = (url: string) => StreamCaller;

/** A caller that streams each run, and puts its output together. */
export function streamedRuns(make: StreamCallerMaker): CallerMaker {
  return (url) => {
    const caller = make(url);
    return {
      close: caller.close,
      async run(order) {
        const stream = caller.open(order);
        const { events, end } = await readAll(stream);
        const { headers, refusal } = stream;
        if (end.kind === "refused" && refusal) return { ...end, ...refusal, headers };
        const [started] = events;
        if (end.kind !== "end" || started?.kind !== "started") throw new Error(`it ended: ${end.kind}`);
        return { kind: "ok", answer: { ...started, text: textIn(events), ...outputIn(events) }, headers };
      },
    };
  };
}

/** Reads a stream to its end. */
export async function readAll(stream: OpenStream): Promise<{ events: StreamEvent[]; end: StreamEnd }> {
  const events: StreamEvent[] = [];
  for (;;) {
    const event = await stream.next();
    if (isStreamEnd(event)) return { events, end: event };
    events.push(event);
  }
}

/** The output in these events. */
export function textIn(events: readonly StreamEvent[]): string {
  return events.map((event) => (event.kind === "delta" ? event.text : "")).join("");
}

function outputIn(events: readonly StreamEvent[]) {
  const event = events.at(-1);
  return event?.kind === "output" ? { output: event.output } : {};
}

/** Connect's own clients, made from the descriptors. */
export const connectStreamCallers = ofEachTransport(({ transport, close }): StreamCaller => {
  const client = createClient(RunService, transport);
  return {
    close,
    open({ appId, text, input, authorization, headers: sent, timeoutMs }) {
      const headers = new Headers();
      const keep = keepIn(headers);
      const leaving = new AbortController();
      let refusal: RefusalWords | undefined;
      const messages = client
        .streamApp(
          { appId, ...(text !== undefined && { text }), ...(input && { input }) },
          {
            headers: { ...sent, ...(authorization !== undefined && { authorization }) },
            onHeader: keep,
            onTrailer: keep,
            signal: leaving.signal,
            ...(timeoutMs !== undefined && { timeoutMs }),
          },
        )
        [Symbol.asyncIterator]();
      return {
        headers,
        get refusal() {
          return refusal;
        },
        leave: () => leaving.abort(),
        async next() {
          try {
            const next = await messages.next();
            return next.done ? { kind: "end" } : eventOf(next.value);
          } catch (thrown) {
            const error = ConnectError.from(thrown);
            keep(error.metadata);
            refusal = { message: error.rawMessage, details: detailsOf(error) };
            return { kind: "refused", code: error.code, reason: reasonOf(error) };
          }
        },
      };
    },
  };
});

function eventOf({ event }: StreamAppResponse): StreamEvent {
  if (event.case === undefined) throw new Error("a message without an event");
  return event.case === "started"
    ? { kind: "started", runId: event.value.runId, appId: event.value.appId }
    : event.case === "output"
      ? { kind: "output", output: toJson(ValueSchema, event.value) }
      : { kind: "delta", text: event.value.text };
}
