// The way of a message into a response: one JSON value, the bytes of a `google.api.HttpBody`, or
// the lines of a stream.

import { isMessage, type Message, type Registry, toJson } from "@bufbuild/protobuf";
import { isReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { type HttpBody, HttpBodySchema } from "../gen/google/api/httpbody_pb.ts";
import type { Binding } from "./binding.ts";
import { flatWriterOf } from "./flat-message.ts";
import { isJsonObject } from "./json-form.ts";

/** The body of a response and its media type. */
export interface EncodedResponse {
  readonly contentType: string;
  readonly body: string | Uint8Array;
}

/** Encodes the response message of a binding. */
export type Encoder = (message: Message) => EncodedResponse;

/**
 * Compiles the encoder of a binding. It writes ProtoJSON in lowerCamelCase, with fields at their
 * default, or the bytes of a `google.api.HttpBody`. With `response_body` it writes only that field,
 * or null if it is not set. Throws if the message is not of the method's output type, or holds an
 * Any of a type that the registry does not know.
 */
export function createEncoder(binding: Binding, registry: Registry | undefined): Encoder {
  const { method, responseBody } = binding;
  const writeFlat = responseBody === undefined ? flatWriterOf(method.output) : undefined;
  const options = { ...(registry && { registry }), alwaysEmitImplicit: true };
  return (message) => {
    const written = writeFlat?.(message);
    if (written !== undefined) return { contentType: "application/json", body: JSON.stringify(written) };
    const raw = rawBodyIn(binding, message);
    if (raw !== undefined) return encodeRaw(raw);
    const json = toJson(method.output, message, options);
    const sent = responseBody === undefined || !isJsonObject(json) ? json : json[responseBody.jsonName];
    return { contentType: "application/json", body: JSON.stringify(sent ?? null) };
  };
}

function rawBodyIn({ method, responseBody }: Binding, message: Message): HttpBody | undefined {
  if (isMessage(message, HttpBodySchema)) return message;
  if (responseBody?.fieldKind !== "message") return undefined;
  const field = reflect(method.output, message, false).get(responseBody);
  return isReflectMessage(field) && isMessage(field.message, HttpBodySchema) ? field.message : undefined;
}

function encodeRaw({ contentType, data }: HttpBody): EncodedResponse {
  return { contentType: contentType === "" ? "application/octet-stream" : contentType, body: data };
}

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
  /** Keeps a silent connection alive. It may stand before and behind every message. */
  readonly quiet: string;
}

/** The media types of the forms. The first is the usual one; those of JSON lines are one form. */
export const streamTypes = [
  "text/event-stream",
  "application/x-ndjson",
  "application/ndjson",
  "application/jsonl",
] as const;
export type StreamType = (typeof streamTypes)[number];

/** Each JSON value is one line of either form. */
export const streamForms: Readonly<Record<StreamType, StreamForm>> = {
  /**
   * Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html. They are
   * always UTF-8, but `requests` of Python reads `text/*` without a charset as Latin-1.
   */
  "text/event-stream": {
    contentType: "text/event-stream; charset=utf-8",
    message: (message) => `data: ${jsonOf(message)}\n\n`,
    end: "event: end\ndata: {}\n\n",
    fault: (json) => `event: error\ndata: ${inOneLine(json)}\n\n`,
    quiet: ": ping\n\n",
  },
  "application/x-ndjson": jsonLines("application/x-ndjson"),
  "application/ndjson": jsonLines("application/ndjson"),
  "application/jsonl": jsonLines("application/jsonl"),
};

/** None of these types has a charset: clients read them as UTF-8, or as bytes. */
function jsonLines(contentType: StreamType): StreamForm {
  return {
    contentType,
    message: (message) => `${jsonOf(message)}\n`,
    end: '{"end":{}}\n',
    fault: (json) => `${inOneLine(json)}\n`,
    // An empty line would be no JSON.
    quiet: '{"ping":{}}\n',
  };
}

function jsonOf({ body }: EncodedResponse): string {
  // A rule that streams raw bytes is refused at start-up.
  if (typeof body !== "string") throw new Error("a message of a stream has no JSON");
  return inOneLine(body);
}

/**
 * Returns the same JSON, one line for every reader. JSON escapes the line ends of ASCII itself.
 * What else the readers of Python (`str.splitlines`), Node (`readline`), Java (`Scanner`), .NET and
 * Swift cut at is legal in its strings, and can stand nowhere else.
 */
function inOneLine(json: string): string {
  return json.replace(unicodeLineEnds, (end) => escapes[end] ?? end);
}

const unicodeLineEnds = /[\u0085\u2028\u2029]/g;
const escapes: Readonly<Record<string, string>> = {
  "\u0085": "\\u0085",
  "\u2028": "\\u2028",
  "\u2029": "\\u2029",
};
