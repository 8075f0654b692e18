import { isUtf8 } from "node:buffer";
import { compileRequest } from "../apps/app-template.ts";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { Reservation } from "../http/handler.ts";
import { traceHeaders } from "../http/trace-context.ts";
import type { Redact } from "../log/redaction.ts";
import { Refusal, refusalFrom } from "../refusal/refusal.ts";
import { AnswerTemplate } from "./answer-template.ts";
import { type CleanWords, createCleanWords } from "./app-words.ts";
import { type HostLookup, lookupOf } from "./host-lookup.ts";
import { createHttpConnections } from "./http-connections.ts";
import {
  type AnswerHeaders,
  type AnswerReader,
  beginExchange,
  type HttpCall,
  type HttpExchange,
  mediaTypeOf,
} from "./http-exchange.ts";
import { runBounds } from "./run-bounds.ts";
import {
  appFailed,
  type BackendRunner,
  type CallTrace,
  type RemoteBackend,
  type Run,
  type RunOutput,
  sentDeadline,
} from "./runner.ts";
import { ByteBuffer } from "./stream/byte-buffer.ts";
import { HttpTexts } from "./stream/http-texts.ts";
import { isStreamType, jsonIn, ownMessage, readMessage, streamTypes } from "./stream/piece-decoder.ts";
import { wholeOutput } from "./stream/running-streams.ts";

/**
 * Runs apps on an HTTP server: one POST of `{"runId","teamId","appId","keyId","text"}` with the
 * app's headers, `X-Request-Id`, the trace context if there is one, and `X-Keyrun-Deadline-Ms`, the
 * whole milliseconds that are left to the app or its caller. Success is 200 with a JSON object that
 * has a string `text` or an `output`, at most `outputBytesMax` bytes in all, or a stream whose
 * texts have no more bytes together. An app with a template gets a body of its own, and has its
 * texts elsewhere. No connection within `backendConnectMsMax` is APP_UNREACHABLE, and an app may
 * refuse or be busy (`app-refusals.ts`). Everything else, also a redirect, becomes APP_FAILED.
 */
export function createHttpRunner(
  clock: Clock,
  hosts: HostLookup,
  {
    appRunsMax,
    backgroundRunsMax,
    outputBytesMax,
    redact,
  }: { appRunsMax: number; backgroundRunsMax: number; outputBytesMax: number; redact: Redact },
): BackendRunner<HttpBackend> {
  // As many as an app can have runs: a run never waits for another one's connection. Streams and
  // runs in the background have connections of their own, and are bounded by the caller.
  const open = (connectionsMax: number, readsAhead: boolean) =>
    createHttpConnections({
      clock,
      lookup: lookupOf(hosts),
      connectionsMax,
      readsAhead,
      idleAppsMax: runBounds.backendIdleAppsMax,
    });
  const ofRuns = open(appRunsMax, true);
  const ofBackground = open(backgroundRunsMax, true);
  // What is read ahead would wait in memory for a caller that stops to read.
  const ofStreams = open(bounds.streamsMax, false);
  const targets = new WeakMap<HttpBackend, Target>();
  const targetOf = (backend: HttpBackend): Target => {
    const known = targets.get(backend);
    if (known !== undefined) return known;
    const target = readTarget(backend, redact);
    targets.set(backend, target);
    return target;
  };

  return {
    run(run, backend, limits) {
      const target = targetOf(backend);
      const connections = (run.isBackground ? ofBackground : ofRuns).of(run.app, target.origin);
      const deadlineMs = sentDeadline(run, limits.deadlineMs, clock);
      const call = callOf(run, target, { isStreamed: false, deadlineMs });
      return new Promise((resolve, reject) => {
        const reader = new TextReader(outputBytesMax, run.reservation, target.answers, { resolve, reject });
        const exchange = beginExchange({ connections, clock }, call, reader);
        reader.exchange = exchange;
        const { signal } = limits;
        signal.addEventListener("abort", () => exchange.abort(signal.reason), { once: true });
      });
    },
    stream(run, backend, { deadlineMs, signal }) {
      const target = targetOf(backend);
      const connections = ofStreams.of(run.app, target.origin);
      const sentDeadlineMs = sentDeadline(run, deadlineMs, clock);
      const call = callOf(run, target, { isStreamed: true, deadlineMs: sentDeadlineMs });
      const messages = target.answers?.messages();
      const texts = new HttpTexts(
        { messageBytesMax: outputBytesMax, reservation: run.reservation, messages },
        (reader) => beginExchange({ connections, clock }, call, reader),
      );
      signal.addEventListener("abort", () => texts.cancel(signal.reason), { once: true });
      return texts;
    },
    traceOf: ({ url }) => traceOfCall(new URL(url)),
    close() {
      ofRuns.close();
      ofBackground.close();
      ofStreams.close();
    },
  };
}

type HttpBackend = Extract<RemoteBackend, { kind: "http" }>;

function traceOfCall({ hostname, port, protocol }: URL): CallTrace {
  const portOfServer = Number(port) || (protocol === "https:" ? 443 : 80);
  return {
    spanName: "POST",
    attributes: {
      "server.address": hostname,
      "server.port": portOfServer,
      "http.request.method": "POST",
    },
    statusAttribute: "http.response.status_code",
  };
}

interface Target {
  readonly origin: string;
  readonly path: string;
  readonly headers: readonly string[];
  /** The headers of a run whose output is streamed. */
  readonly streamHeaders: readonly string[];
  /** Headers that the operator has given the app. They are sent instead of the caller's. */
  readonly hasTraceparent: boolean;
  readonly hasTracestate: boolean;
  readonly cleanWords: CleanWords;
  readonly bodyOf: (run: Run, isStreamed: boolean) => string;
  /** Where the texts stand in the app's own format; undefined where it speaks Keyrun's. */
  readonly answers: AnswerTemplate | undefined;
}

function readTarget({ url, headers, template }: HttpBackend, redact: Redact): Target {
  const { origin, pathname, search } = new URL(url);
  const own = headers.flatMap(({ name, value }) => [name, value]);
  const has = (wanted: string) => headers.some(({ name }) => name === wanted);
  const carried = ["Content-Type", "application/json", "Accept-Encoding", "identity"];
  const accepting = (types: string) => [...(has("accept") ? [] : ["Accept", types]), ...own, ...carried];
  return {
    origin,
    path: pathname + search,
    headers: accepting("application/json"),
    streamHeaders: accepting(streamedTypes),
    hasTraceparent: has("traceparent"),
    hasTracestate: has("tracestate"),
    cleanWords: createCleanWords(redact, headers),
    bodyOf: template?.request ? templateBody(template.request) : ownBody,
    answers: template && new AnswerTemplate(template),
  };
}

/** Some frameworks refuse a request if it does not accept the one type that its handler answers. */
const streamedTypes = [...streamTypes, "application/json"].join(", ");

function callOf(
  run: Run,
  target: Target,
  { isStreamed, deadlineMs }: { isStreamed: boolean; deadlineMs: number },
): HttpCall {
  const body = target.bodyOf(run, isStreamed);
  run.watch?.onSent(body);
  const headers = isStreamed ? target.streamHeaders : target.headers;
  return {
    path: target.path,
    headers: [...headers, "X-Request-Id", run.requestId, ...traceHeaders(traceFor(target, run))],
    body: Buffer.from(body),
    deadlineMs,
    answered: (status) => run.answered?.(status),
    watch: run.watch,
    cleanWords: target.cleanWords,
  };
}

/** A `tracestate` belongs to the `traceparent` it came with, and is never sent without that. */
function traceFor(target: Target, { traceContext }: Run): Run["traceContext"] {
  if (traceContext === undefined || target.hasTraceparent) return undefined;
  return target.hasTracestate ? { traceparent: traceContext.traceparent } : traceContext;
}

/** Of the input it has what the caller sent. */
function ownBody({ runId, teamId, app, keyId, text, input }: Run): string {
  return JSON.stringify({ runId, teamId, appId: app.id, keyId, text, input });
}

function templateBody(request: string): Target["bodyOf"] {
  const write = compileRequest(request);
  return ({ runId, teamId, app, keyId, text, input }, isStreamed) =>
    write({ runId, teamId, appId: app.id, keyId, text, input, stream: isStreamed });
}

/**
 * Reads the text of an answer. It copies what comes into one buffer, so that an answer in small
 * chunks costs its bytes, and keeps no read alive.
 */
class TextReader implements AnswerReader {
  exchange: HttpExchange | undefined;
  readonly #bytesMax: number;
  readonly #settle: { resolve(output: RunOutput): void; reject(refusal: Refusal): void };
  readonly #reservation: Reservation;
  readonly #body: ByteBuffer;
  readonly #answers: AnswerTemplate | undefined;
  #texts: HttpTexts | undefined;
  #type = "";

  constructor(
    bytesMax: number,
    reservation: Reservation,
    answers: AnswerTemplate | undefined,
    settle: { resolve(output: RunOutput): void; reject(refusal: Refusal): void },
  ) {
    this.#bytesMax = bytesMax;
    this.#reservation = reservation;
    this.#answers = answers;
    this.#settle = settle;
    this.#body = new ByteBuffer(bytesMax, `The answer has more than ${bytesMax} bytes.`, reservation);
  }

  onHead(headers: AnswerHeaders): void {
    this.#type = mediaTypeOf(headers) || "no media type";
    if (isStreamType(headers["content-type"])) this.#join(headers);
  }

  /** The app streams, although it was asked for whole JSON: the output is all of its texts. */
  #join(headers: AnswerHeaders): void {
    const { exchange } = this;
    if (!exchange) return;
    const reservation = this.#reservation;
    const messages = this.#answers?.messages();
    this.#texts = new HttpTexts({ messageBytesMax: this.#bytesMax, reservation, messages }, () => exchange);
    this.#texts.onHead(headers);
    const output = wholeOutput(this.#texts, this.#bytesMax, reservation);
    output.then(this.#settle.resolve, this.#settle.reject);
  }

  onBytes(bytes: Buffer): void {
    if (this.#texts) {
      this.#texts.onBytes(bytes);
      return;
    }
    try {
      this.#body.append(bytes);
    } catch (tooMany) {
      if (!(tooMany instanceof Refusal)) throw tooMany;
      this.exchange?.abort(tooMany);
    }
  }

  onEnd(refusal: Refusal | undefined): void {
    if (this.#texts) {
      this.#texts.onEnd(refusal);
      return;
    }
    const { resolve, reject } = this.#settle;
    if (refusal !== undefined) {
      reject(refusal);
      return;
    }
    try {
      resolve(outputIn(this.#body.take(), this.#type, this.#answers));
    } catch (thrown) {
      reject(refusalFrom(thrown));
    }
  }
}

/** Throws APP_FAILED, which says what came in place of an output, but no word of it. */
function outputIn(body: Buffer, type: string, answers: AnswerTemplate | undefined): RunOutput {
  if (!isUtf8(body)) throw appFailed("The answer is not JSON in UTF-8.");
  const json = body.toString();
  const answer = jsonIn(json);
  const wanted = answers?.wanted ?? `It must be ${ownMessage}`;
  if (body.length === 0) throw appFailed(`The answer is not JSON: it is empty. ${wanted}.`);
  if (answer === undefined) throw appFailed(`The answer is not JSON${cameAs(type)}. ${wanted}.`);
  if (answers) return answers.readWhole(json, answer);
  const output = readMessage(json, answer);
  if (output !== undefined) return output;
  throw appFailed(`The answer is not ${ownMessage}: ${shapeOf(answer)}.`);
}

function cameAs(type: string): string {
  return /\bjson$/.test(type) ? `, although it came as ${type}` : `: it came as ${type}`;
}

function shapeOf(answer: unknown): string {
  if (Array.isArray(answer)) return "it is an array";
  if (typeof answer !== "object" || answer === null)
    return `it is ${answer === null ? "null" : `a ${typeof answer}`}`;
  return "text" in answer ? "its `text` is no string" : "it has neither";
}
