import type { EncodedResponse } from "./encode.ts";

/**
 * How the messages of a stream are written into one HTTP body, so that a reader can tell its end
 * from a connection that broke. The same for every server-streaming method.
 */
export interface StreamForm {
  readonly contentType: string;
  /** Returns the text of one message. */
  message(message: EncodedResponse): string;
  /** The last text of a stream that is whole. */
  readonly end: string;
  /** Returns the last text of a stream that broke off: `json` is an object with the key `error`. */
  fault(json: string): string;
  /** Keeps a silent connection alive. Empty if the form has nothing that every reader ignores. */
  readonly quiet: string;
}

/** The media types of the forms. The first is the usual one. */
export const streamTypes = ["text/event-stream", "application/x-ndjson"] as const;
export type StreamType = (typeof streamTypes)[number];

/** JSON has no line breaks, so each value is one line of either form. */
export const streamForms: Readonly<Record<StreamType, StreamForm>> = {
  /** Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html */
  "text/event-stream": {
    contentType: "text/event-stream",
    message: (message) => `data: ${jsonOf(message)}\n\n`,
    end: "event: end\ndata: {}\n\n",
    fault: (json) => `event: error\ndata: ${json}\n\n`,
    quiet: ": ping\n\n",
  },
  /** An empty line is no JSON, so nothing is sent while the stream is silent. */
  "application/x-ndjson": {
    contentType: "application/x-ndjson",
    message: (message) => `${jsonOf(message)}\n`,
    end: '{"end":{}}\n',
    fault: (json) => `${json}\n`,
    quiet: "",
  },
};

/** The keys with which the last line of a stream begins. A message must not have them. */
export const lastLineKeys: readonly string[] = ["error", "end"];

function jsonOf({ body }: EncodedResponse): string {
  // A rule that streams raw bytes is refused at start-up.
  if (typeof body !== "string") throw new Error("a message of a stream has no JSON");
  return body;
}
