// A request of REST, from its path to its answer: which method it is for, whether its caller is
// admitted, then body, work and answer in the order of `createRestHandler`.

import type { Message } from "@bufbuild/protobuf";
import type { Binding } from "#transcode/binding.ts";
import type { BodyHeaders } from "#transcode/decode.ts";
import type { Problem } from "#transcode/problem.ts";
import type { Match, MatchedRoute } from "#transcode/route-table.ts";
import type { Transcoder } from "#transcode/transcoder.ts";
import type { AddressAllowanceView, Admit } from "../admission/admission.ts";
import type { Call, Principal } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import {
  type BodyOutcome,
  type HttpHandler,
  type HttpRequest,
  type HttpResponse,
  type Refused,
  wholeBody,
} from "../http/handler.ts";
import { flatHeaders, streamHeaders } from "../http/headers.ts";
import type { Outcomes } from "../http/outcomes.ts";
import { type RateReport, rateReportHeaders } from "../limit/rate-limit-headers.ts";
import { cutText, fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";
import {
  Accepted,
  type RestAdmission,
  type RestMethod,
  type RestPolicy,
  type WiredMethod,
  wiredMethod,
} from "./rest-method.ts";
import { streamAnswer, streamFormFor } from "./stream-answer.ts";

export interface RestHandlerParts {
  readonly clock: Clock;
  readonly transcoder: Transcoder;
  readonly methods: readonly RestMethod[];
  readonly policy: RestPolicy;
  readonly admit: Admit;
  readonly allowance: AddressAllowanceView;
  /** How many bytes a body may have, unless the policy says less of its method. */
  readonly bodyBytesMax: number;
  /** Counts and logs streams, because a refusal may follow a body that began with 200. */
  readonly outcomes: Outcomes;
  /** After so much silence a stream sends something; by default the bound. */
  readonly streamQuietMs?: number;
}

/**
 * The REST handler. It checks in the order that the API promises, and the first failure is the
 * response: method and path, key and limit where the policy asks for a key, the resource in the
 * path, media type, size, JSON and fields, then the method's own work.
 */
export function createRestHandler(parts: RestHandlerParts): HttpHandler {
  const methods = new Map(parts.transcoder.bindings.map((binding) => [binding, wiredMethod(parts, binding)]));

  return async (request) => {
    // HEAD is GET without the body, which the server leaves out.
    const verb = request.method === "HEAD" ? "GET" : request.method;
    const match = parts.transcoder.match(verb, request.target);
    if (match.kind === "not_found") return { refusal: fail("NOT_FOUND") };
    if (match.kind !== "found") {
      const decision = parts.allowance.snapshot(request.address);
      return refused(parts, pathRefusal(match), decision && { policy: "address", decision });
    }
    const { route } = match;
    const method = methods.get(route.binding) ?? wiredMethod(parts, route.binding);
    const admission = await method.admit(request, parts.allowance);
    if (admission.kind === "refused") return refused(parts, admission.refusal, admission.rate);
    const admitted = new AdmittedRequest(parts, { request, route, method }, admission);
    try {
      return await admitted.answer();
    } catch (thrown) {
      const { refusal, headers = [] } = refused(parts, admitted.refusalOf(thrown), admitted.rate());
      return { refusal, headers: [...headers, ...admitted.ownHeaders()] };
    }
  };
}

/** A request, the route that it matches and the method behind it. */
interface MatchedRequest {
  readonly request: HttpRequest;
  readonly route: MatchedRoute;
  readonly method: WiredMethod;
}

function pathRefusal(match: Exclude<Match, { kind: "found" | "not_found" }>): Refusal {
  if (match.kind === "method_not_allowed") {
    const allow = match.allow.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : method));
    return fail("METHOD_NOT_ALLOWED", { metadata: { allow: allow.join(", ") } });
  }
  return fail("INVALID_ARGUMENT", {
    problem: "The path has a percent escape that is not valid UTF-8. Write a literal % as %25.",
  });
}

function refused({ clock }: RestHandlerParts, refusal: Refusal, rate: RateReport | undefined): Refused {
  return { refusal, headers: rateReportHeaders(rate, clock) };
}

/**
 * A request whose caller is admitted, and the call that its work gets. It does the remaining
 * steps in order.
 */
class AdmittedRequest implements Call {
  readonly principal: Principal;
  readonly http: HttpRequest;
  readonly subject = {};
  readonly #parts: RestHandlerParts;
  readonly #route: MatchedRoute;
  readonly #method: WiredMethod;
  readonly #admission: RestAdmission & { readonly kind: "admitted" };
  /** True once a message was made of an empty body, where a body could have set fields of it. */
  #lacksBody = false;
  #responseHeaders: Headers | undefined;

  constructor(
    parts: RestHandlerParts,
    { request, route, method }: MatchedRequest,
    admission: RestAdmission & { readonly kind: "admitted" },
  ) {
    this.principal = admission.principal;
    this.http = request;
    this.#parts = parts;
    this.#route = route;
    this.#method = method;
    this.#admission = admission;
  }

  /** Created on first use: an app that answers at once never needs one. */
  get signal(): AbortSignal {
    return this.http.signal;
  }

  /** Callers of REST name no deadline. */
  timeoutMs(): undefined {
    return undefined;
  }

  get responseHeaders(): Headers {
    this.#responseHeaders ??= new Headers();
    return this.#responseHeaders;
  }

  /** The same as the headers, because REST responses have no trailers. */
  get responseTrailers(): Headers {
    return this.responseHeaders;
  }

  /** The limits of the team and the key, or of the address, at the moment of the call. */
  rate(): RateReport | undefined {
    const { rate, rateNow } = this.#admission;
    return rateNow ? rateNow() : rate;
  }

  /**
   * Returns the refusal for an error of the request. If no field came because the body was empty,
   * the refusal says so, because the caller may think that it has sent one.
   */
  refusalOf(thrown: unknown): Refusal {
    const refusal = refusalFrom(thrown);
    const { reason, param, message } = refusal;
    if (!this.#lacksBody || reason !== "INVALID_ARGUMENT" || param === null) return refusal;
    if (this.#route.captures.has(param)) return refusal;
    return fail("INVALID_ARGUMENT", { param, problem: `The body is empty. ${message}` });
  }

  /** Resolves with the response of a success. Rejects with the refusal. */
  async answer(): Promise<HttpResponse> {
    await this.#method.checkPath?.(this.principal, this.#route.captures);
    const problem = this.#parts.transcoder.checkMediaType(this.#route, bodyHeadersOf(this.http));
    // A body of another type is refused at its first byte. Without a body there is no type.
    const body = await this.http.readBody(problem ? 0 : this.#method.bodyBytesMax);
    if (problem && body.kind === "too_large") throw problemRefusal(problem);
    const answer = await this.#method.answer(this.#messageOf(body), this);
    return Symbol.asyncIterator in answer ? this.#stream(answer) : this.#succeed(answer);
  }

  async #stream(messages: AsyncIterable<Message>): Promise<HttpResponse> {
    const { transcoder, outcomes, streamQuietMs: quietMs = bounds.streamQuietMs } = this.#parts;
    const encode = (message: Message) => transcoder.encodeResponse(this.#route.binding, message);
    const form = streamFormFor(this.http.header("accept"));
    const body = await streamAnswer(messages, { request: this.http, outcomes, encode, form, quietMs });
    const headers = [...this.#headers(form.contentType), ...streamHeaders];
    return { status: 200, headers, body, uncounted: true };
  }

  #succeed(answer: Message | Accepted): HttpResponse {
    if (answer instanceof Accepted) return this.#accept(answer);
    return { status: 200, ...this.#written(this.#route.binding, answer) };
  }

  #accept({ method, message }: Accepted): HttpResponse {
    const { transcoder } = this.#parts;
    const binding = transcoder.bindings.find((each) => each.method === method);
    if (!binding) throw new Error(`${method.toString()} is not served over REST`);
    return { status: 202, ...this.#written(binding, message) };
  }

  /** Those that the work has set. */
  ownHeaders(): string[] {
    return flatHeaders(this.#responseHeaders);
  }

  /** JSON ends its line, so that the prompt of a shell begins one. */
  #written(binding: Binding, message: Message) {
    const { contentType, body } = this.#parts.transcoder.encodeResponse(binding, message);
    return { headers: this.#headers(contentType), body: typeof body === "string" ? `${body}\n` : body };
  }

  #headers(contentType: string): string[] {
    return [
      ...rateReportHeaders(this.rate(), this.#parts.clock),
      ...["Content-Type", contentType, "X-Request-Id", this.http.requestId],
      ...this.ownHeaders(),
    ];
  }

  #messageOf(body: BodyOutcome): Message {
    const route = this.#route;
    const bytes = wholeBody(body, this.#method.bodyBytesMax);
    const lacksBody = bytes.byteLength === 0 && route.binding.body.kind !== "none";
    const parts = { ...bodyHeadersOf(this.http), body: bytes };
    const decoded = this.#parts.transcoder.decodeRequest(route, parts);
    if (decoded.kind === "problem") throw problemRefusal(decoded);
    this.#lacksBody = lacksBody;
    return decoded.message;
  }
}

function bodyHeadersOf(request: HttpRequest): BodyHeaders {
  return {
    contentType: request.header("content-type"),
    contentEncoding: request.header("content-encoding"),
  };
}

const problemReasons = {
  invalid_json: "INVALID_JSON",
  invalid_argument: "INVALID_ARGUMENT",
  unsupported_media_type: "UNSUPPORTED_MEDIA_TYPE",
} as const;

/** The name of the field is cut before the words that follow it, so that they are not cut off. */
function problemRefusal({ problem: kind, param, words, readable }: Problem): Refusal {
  const reason = problemReasons[kind];
  if (param === null) return fail(reason, { problem: words, metadata: { ...readable } });
  return fail(reason, { param, problem: `${cutText(param, bounds.refusalNameBytesMax)} ${words}` });
}
