import type { Entry } from "../metrics/metrics.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import type { RequestNotes } from "./request-notes.ts";

/**
 * One HTTP request as a value, the same for every HTTP version. A handler never sees a socket or an
 * object of `node:http`.
 */
export interface HttpRequest {
  /** For example "1.1" or "2.0". */
  readonly httpVersion: string;
  readonly method: string;
  /** Path and query as received, not decoded. Starts with "/". */
  readonly target: string;
  /** Returns a header's value by its lower-case name, joined as by `headerOf`. */
  header(name: string): string | undefined;
  /** Names and values, alternating, as received; over HTTP/2 with the pseudo-headers. */
  readonly rawHeaders: readonly string[];
  /** Every value of `Authorization`, in order. */
  readonly authorizations: readonly string[];
  /** The client's address, from the peer or from the trusted proxies; see `clientAddress`. */
  readonly address: string;
  /** The caller's own id if it has the right form, otherwise a new one. */
  readonly requestId: string;
  /** Whether the outcome of the request is counted, as `Outcomes` and the parser set it. */
  isCounted: boolean;
  /** Undefined if requests are not watched. */
  readonly notes?: RequestNotes | undefined;
  /** The team of the request's key, as the admission sets it once the key's secret was right. */
  teamId?: string | undefined;
  /** When the request began, by the monotonic clock. */
  readonly startMs?: number;
  /** Set once the answer is a stream. */
  isStream?: boolean;
  /**
   * Reads the whole body, and reserves for it. Call it once. Synchronous if all of it has arrived.
   * Never rejects.
   */
  readBody(bytesMax: number): BodyOutcome | Promise<BodyOutcome>;
  /**
   * Returns the body's bytes as they come, instead of `readBody`. Call it once. Bytes that are not
   * taken wait with the caller. Throws a refusal if the rest will not come: the one with which
   * `signal` is aborted, OVERLOADED, otherwise CANCELLED. It reserves for an announced length. If
   * there is none, the one who collects the chunks reserves for them.
   */
  bodyChunks(): AsyncIterable<Uint8Array>;
  /**
   * Call it instead if the body is neither read nor waited for. Over HTTP/1.1 the connection then
   * closes after the answer, unless the whole body has arrived.
   */
  leaveBody(): void;
  /** What the body has reserved, and the run that is made of it. Freed with the answer. */
  readonly reservation: Reservation;
  /**
   * Aborted when the caller disconnects before the last byte of the response is written, or at the
   * end of the drain. Its reason is always a `Refusal`. Made on first use.
   */
  readonly signal: AbortSignal;
}

/** The bytes of memory that a request or a run has reserved. */
export interface Reservation {
  /**
   * Reserves for so many more bytes of a body or an answer, and for the text that is made of them.
   * Returns false if there is no room: then nothing is reserved, and the work ends with OVERLOADED.
   */
  reserve(bytes: number): boolean;
  /** Like `reserve`, of what is missing until it has reserved for so many. */
  reserveUpTo(bytes: number): boolean;
}

export type BodyOutcome =
  | { readonly kind: "whole"; readonly bytes: Uint8Array }
  | { readonly kind: "too_large" }
  /**
   * The rest of the body will not come. Without a reason the caller has disconnected or was too
   * slow, and nobody reads the response. With a reason Keyrun gave up, for example at the end of a
   * drain, and responds with that refusal.
   */
  | { readonly kind: "gone"; readonly reason?: Refusal };

export type HttpResponse = WholeResponse | StreamedResponse;

interface ResponseHead {
  readonly status: number;
  /**
   * Names and values, alternating, sent as they are. The server adds Date, Content-Length and
   * Connection.
   */
  readonly headers: string[];
  /**
   * Names and values, alternating, sent after the body. A function is called when the body has
   * ended. A response with trailers has no Content-Length.
   */
  readonly trailers?: Trailers;
  /**
   * Set if the response is not a call of the API (probes, metrics, the screen), or if the handler
   * counts the outcome itself.
   */
  readonly uncounted?: true;
}

export type Trailers = readonly string[] | (() => readonly string[]);

/** A response that is sent at once, with its length. */
export interface WholeResponse extends ResponseHead {
  readonly body: string | Uint8Array;
}

/**
 * A response that is sent as its body comes, at the caller's pace. If the body throws, the
 * connection ends, or over HTTP/2 the stream, so the caller sees that the response is incomplete.
 * If the caller disconnects, the body's `return` is called.
 */
export interface StreamedResponse extends ResponseHead {
  readonly body: AsyncIterable<Uint8Array>;
}

/** A refusal that a handler returns. A thrown refusal means the same, without headers. */
export interface Refused {
  readonly refusal: Refusal;
  /** Additional headers, names and values, alternating: those of the rate limit. */
  readonly headers?: readonly string[];
  /**
   * Sent instead of the usual form when a person reads the response: a page, or a redirect to one.
   */
  readonly response?: WholeResponse;
}

export type Answer = HttpResponse | Refused;

/**
 * Answers a request. If it throws or rejects, the response is that refusal, or INTERNAL if the
 * error is not a refusal.
 */
export type HttpHandler = (request: HttpRequest) => Answer | Promise<Answer>;

/** A handler, and how its responses are counted. */
export interface Mount {
  readonly handler: HttpHandler;
  /** The entry under which its requests are counted. */
  readonly entry: Entry;
  readonly refusalForm: RefusalForm;
}

/**
 * JSON with an HTTP status; the same with the error in Connect's form as well; or a gRPC status.
 */
export type RefusalForm = "json" | "json_for_rpc" | "grpc";

/** Returns the body's bytes. Throws the refusal of the request if the body is not there in full. */
export function wholeBody(body: BodyOutcome, bytesMax: number): Uint8Array {
  if (body.kind === "whole") return body.bytes;
  if (body.kind === "gone") throw body.reason ? beforeWork(body.reason) : fail("CANCELLED");
  throw fail("REQUEST_TOO_LARGE", { metadata: { bytes_max: String(bytesMax) } });
}

/**
 * The same refusal for a request whose work can't have begun, so that the caller may send it again.
 */
export function beforeWork({ reason, retryAfterMs }: Refusal): Refusal {
  return fail(reason, retryAfterMs === undefined ? {} : { retryAfterMs });
}

/** Settles like the promise, or rejects with the signal's reason as soon as that is aborted. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const end = () => aborted.reject(signal.reason);
  if (signal.aborted) end();
  else signal.addEventListener("abort", end, { once: true });
  try {
    return await Promise.race([aborted.promise, promise]);
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** Settles like the promise, or resolves with undefined after this time. */
export async function unlessLate<T>(promise: Promise<T>, msMax: number): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), msMax);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * The messages of a stream of which the first was asked for. Not a generator: one that is returned
 * before it has begun would not return the stream.
 */
export function startingWith<T>(
  first: Promise<IteratorResult<T, void>>,
  messages: AsyncIterator<T, void>,
): AsyncIterable<T> {
  let asked: typeof first | undefined = first;
  return {
    [Symbol.asyncIterator]: () => ({
      next() {
        const result = asked ?? messages.next();
        asked = undefined;
        return result;
      },
      return: async () => (await messages.return?.()) ?? { done: true, value: undefined },
    }),
  };
}

/**
 * Passes the stream on until the signal is aborted, even while the stream waits for something. Then
 * it throws the signal's reason. Without this, a stream that waits for its caller would delay a
 * drain until its end.
 */
export async function* untilEnded<T>(stream: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const messages = stream[Symbol.asyncIterator]();
  try {
    for (;;) {
      signal.throwIfAborted();
      const next = await unlessAborted(messages.next(), signal);
      if (next.done) return;
      yield next.value;
    }
  } finally {
    // Not awaited: a stream that waits for its caller ends only after the caller has disconnected.
    messages.return?.().catch(() => {});
  }
}
