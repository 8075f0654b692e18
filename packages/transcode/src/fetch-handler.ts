// Serves the RPCs of a Connect router, or of any transport of Connect, as REST, by the
// `google.api.http` rules of their methods. It speaks the `Request` and `Response` of fetch, so it
// runs wherever those are. Connect is no dependency: its transport is known by its form.

import type {
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  Message,
  Registry,
} from "@bufbuild/protobuf";
import {
  type EncodedResponse,
  type StreamForm,
  type StreamType,
  streamForms,
  streamTypes,
} from "./encode.ts";
import { errorOfProblem, errorOfThrown, jsonOfError, type RestError } from "./rest-error.ts";
import type { Match, MatchedRoute } from "./route-table.ts";
import { createTranscoder, type Transcoder } from "./transcoder.ts";

/** What is used of Connect's `Transport`. */
export interface RpcTransport {
  unary(
    method: DescMethodUnary,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: Headers,
    input: Message,
  ): Promise<RpcResponse<Message>>;
  stream(
    method: DescMethodServerStreaming,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: Headers,
    input: AsyncIterable<Message>,
  ): Promise<RpcResponse<AsyncIterable<Message>>>;
}

interface RpcResponse<Content> {
  readonly header: Headers;
  readonly message: Content;
  readonly trailer: Headers;
}

/** Answers a request that a rule takes. Undefined: no rule takes this path. Never rejects. */
export type FetchHandler = (request: Request) => Promise<Response | undefined>;

/** The largest body that is read by default. */
export const bodyBytesMaxDefault = 4 * 1024 * 1024;

/**
 * Reads the rules of the services, and throws an Error that names a rule in doubt. `registry` holds
 * the message types for `google.protobuf.Any`, and for the details of errors.
 */
export function createFetchHandler(options: {
  readonly services: readonly DescService[];
  readonly transport: RpcTransport;
  readonly registry?: Registry;
  readonly bodyBytesMax?: number;
}): FetchHandler {
  const { services, transport, registry, bodyBytesMax = bodyBytesMaxDefault } = options;
  const transcoder = createTranscoder(services, registry && { registry });
  return async (request) => {
    const { pathname, search } = new URL(request.url);
    const match = transcoder.match(request.method, pathname + search);
    if (match.kind === "not_found") return undefined;
    if (match.kind !== "found") return refuseTarget(match);
    const input = await readMessage(transcoder, match.route, request, bodyBytesMax);
    if ("error" in input) return respondError(input.error);
    try {
      return await call({ transcoder, transport, registry }, match.route, request, input.message);
    } catch (thrown) {
      return respondError(errorOfThrown(thrown, registry), metadataOf(thrown));
    }
  };
}

function refuseTarget(match: Exclude<Match, { kind: "found" | "not_found" }>): Response {
  if (match.kind === "bad_escape") {
    return respondError(refusal(400, "INVALID_ARGUMENT", "The path has an escape that can't be decoded."));
  }
  const allow = match.allow.join(", ");
  return respondError(refusal(405, "UNIMPLEMENTED", `Use one of: ${allow}.`), new Headers({ allow }));
}

/**
 * The message that the request becomes. The headers are checked before the body is read, of which
 * one byte is then enough to refuse it: an empty body has no type.
 */
async function readMessage(
  transcoder: Transcoder,
  route: MatchedRoute,
  request: Request,
  bodyBytesMax: number,
): Promise<{ readonly message: Message } | { readonly error: RestError }> {
  const contentType = request.headers.get("content-type") ?? undefined;
  const contentEncoding = request.headers.get("content-encoding") ?? undefined;
  const unreadable = transcoder.checkMediaType(route, { contentType, contentEncoding });
  const bytesMax = unreadable === undefined ? bodyBytesMax : 0;
  const body = await readBody(request.body, bytesMax).catch(() => "broken" as const);
  if (unreadable !== undefined && body === "too_large") return { error: errorOfProblem(unreadable) };
  if (body === "broken") return { error: refusal(400, "INVALID_ARGUMENT", "The body broke off.") };
  if (body === "too_large") {
    const words = `The body has more than ${bodyBytesMax} bytes.`;
    return { error: refusal(413, "RESOURCE_EXHAUSTED", words) };
  }
  const decoded = transcoder.decodeRequest(route, { contentType, contentEncoding, body });
  return decoded.kind === "problem" ? { error: errorOfProblem(decoded) } : decoded;
}

function refusal(httpStatus: number, status: string, message: string): RestError {
  return { httpStatus, status, message, details: [] };
}

async function readBody(body: Request["body"], bytesMax: number): Promise<Uint8Array | "too_large"> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.byteLength;
    if (size > bytesMax) return "too_large";
    chunks.push(chunk);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.byteLength;
  }
  return whole;
}

/** Calls the method, and responds with its message or the stream of its messages. */
async function call(
  parts: { transcoder: Transcoder; transport: RpcTransport; registry: Registry | undefined },
  { binding }: MatchedRoute,
  request: Request,
  input: Message,
): Promise<Response> {
  const { transcoder, transport, registry } = parts;
  const { method } = binding;
  const encode = (message: Message) => transcoder.encodeResponse(binding, message);
  const header = headersOfCall(request.headers);
  if (method.methodKind === "unary") {
    const answer = await transport.unary(method, request.signal, undefined, header, input);
    const { contentType, body } = encode(answer.message);
    const headers = headersFor(contentType, answer.header, answer.trailer);
    return new Response(request.method === "HEAD" ? null : bodyInit(body), { status: 200, headers });
  }
  const left = new AbortController();
  const signal = AbortSignal.any([request.signal, left.signal]);
  const stream = await transport.stream(method, signal, undefined, header, only(input));
  const form = streamForms[streamTypeFor(request.headers.get("accept"))];
  const messages = stream.message[Symbol.asyncIterator]();
  // What fails before the first message is an error response of its own.
  const first = await messages.next();
  const texts = textsOf({ messages, first, form, encode, registry, leave: () => left.abort() });
  const headers = headersFor(form.contentType, stream.header);
  // A proxy that compresses a stream would hold its messages back.
  headers.set("cache-control", "no-store, no-transform");
  return new Response(texts, { status: 200, headers });
}

/** The texts of a stream, one message for each read. A failure is the last of them. */
function textsOf(stream: {
  readonly messages: AsyncIterator<Message>;
  readonly first: IteratorResult<Message>;
  readonly form: StreamForm;
  readonly encode: (message: Message) => EncodedResponse;
  readonly registry: Registry | undefined;
  /** Ends the call whose reader has left. */
  readonly leave: () => void;
}): ReadableStream<Uint8Array> {
  const { messages, form, encode, registry, leave } = stream;
  const utf8 = new TextEncoder();
  let waiting: IteratorResult<Message> | undefined = stream.first;
  const nextText = async (): Promise<{ readonly text: string; readonly isLast: boolean }> => {
    try {
      const next = waiting ?? (await messages.next());
      waiting = undefined;
      return { text: next.done ? form.end : form.message(encode(next.value)), isLast: next.done === true };
    } catch (thrown) {
      leave();
      return { text: form.fault(jsonOfError(errorOfThrown(thrown, registry))), isLast: true };
    }
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { text, isLast } = await nextText();
        controller.enqueue(utf8.encode(text));
        if (isLast) controller.close();
      },
      async cancel() {
        leave();
        await messages.return?.().catch(() => {});
      },
    },
    { highWaterMark: 0 },
  );
}

/** The type that `Accept` names first; server-sent events if it names none of them. */
function streamTypeFor(accept: string | null): StreamType {
  for (const range of accept?.split(",") ?? []) {
    const named = range.split(";", 1)[0]?.trim().toLowerCase();
    const type = streamTypes.find((each) => each === named);
    if (type !== undefined) return type;
  }
  return streamTypes[0];
}

function respondError(error: RestError, more = new Headers()): Response {
  return new Response(jsonOfError(error), {
    status: error.httpStatus,
    headers: headersFor("application/json", more),
  });
}

/** The headers and trailers that came with Connect's error. */
function metadataOf(thrown: unknown): Headers | undefined {
  const isWithHeaders = thrown instanceof Error && "metadata" in thrown;
  return isWithHeaders && thrown.metadata instanceof Headers ? thrown.metadata : undefined;
}

/** The headers of a response. REST has no trailers, so those of the RPC are headers too. */
function headersFor(contentType: string, ...sent: readonly Headers[]): Headers {
  const headers = headersOfCall(...sent);
  headers.set("content-type", contentType);
  return headers;
}

function headersOfCall(...sent: readonly Headers[]): Headers {
  const headers = new Headers();
  for (const each of sent) {
    for (const [name, value] of each) if (!ofOneMessage.test(name)) headers.append(name, value);
  }
  return headers;
}

/** Headers that are about one HTTP message, its connection or its protocol, and not the call. */
const ofOneMessage = new RegExp(
  "^(accept|accept-encoding|accept-post|connection|content-encoding|content-length|content-type|" +
    "host|keep-alive|te|trailer|transfer-encoding|upgrade|connect-.*|grpc-.*)$",
);

async function* only(message: Message): AsyncIterable<Message> {
  yield message;
}

/** Bytes of their own, as a `Response` wants them. */
function bodyInit(body: string | Uint8Array): string | Uint8Array<ArrayBuffer> {
  return typeof body === "string" ? body : new Uint8Array(body);
}
