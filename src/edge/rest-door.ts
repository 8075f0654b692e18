import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { Call, Principal } from "../auth/principal.ts";
import type { Clock } from "../clock.ts";
import { fail, type Refusal, refusalFrom } from "../error.ts";
import { rateLimitHeaders } from "../limit/rate-limit-headers.ts";
import type { AddressAllowanceView, Admit, RateReport } from "../run/admission.ts";
import type { BodyOutcome, HttpDoor, HttpRequest, HttpResponse } from "./http.ts";
import { refusalResponse } from "./refusal-response.ts";
import type { Binding } from "./transcode/binding.ts";
import type { Problem } from "./transcode/problem.ts";
import type { Match, MatchedRoute } from "./transcode/route-table.ts";
import type { Transcoder } from "./transcode/transcoder.ts";

/** A method that REST callers reach with an API key. */
export interface RestMethod {
  readonly method: DescMethodUnary;
  /** What does the work. Decided from the path alone, before the body is read; refuses where it can't be done. */
  readonly prepare: (teamId: string, captures: MatchedRoute["captures"]) => RestWork | Promise<RestWork>;
}

export type RestWork = (request: Message, call: Call) => Promise<Message>;

export interface RestDoorParts {
  readonly clock: Clock;
  readonly transcoder: Transcoder;
  readonly methods: readonly RestMethod[];
  readonly admit: Admit;
  readonly allowance: AddressAllowanceView;
  readonly bodyBytesMax: number;
  /** Told of every refusal, for log and metrics. */
  readonly onRefusal: (refusal: Refusal, request: HttpRequest) => void;
  /** Told of every request that was answered with success. */
  readonly onAnswered: () => void;
}

/**
 * The REST door. It decides in the order of the contract, each step a full answer by itself: method and path, key,
 * limit, what the path names, media type, size, JSON and fields, the method's own work.
 */
export function createRestDoor(parts: RestDoorParts): HttpDoor {
  const methods = new Map(
    parts.transcoder.bindings.map((binding) => [binding, wired(parts.methods, binding)]),
  );

  return async (request) => {
    const match = parts.transcoder.match(request.method, request.target);
    if (match.kind === "not_found") return refuse(parts, request, fail("NOT_FOUND"), undefined);
    const { address } = request;
    if (match.kind !== "found") {
      const decision = parts.allowance.look(address);
      return refuse(parts, request, pathRefusal(match), decision && { policy: "address", decision });
    }
    const authorizations = request.authorizations();
    const admitted = parts.admit({ authorizations, address, allowance: parts.allowance });
    const admission = admitted instanceof Promise ? await admitted : admitted;
    if (admission.kind === "refused") return refuse(parts, request, admission.refusal, admission.rate);
    const { route } = match;
    try {
      const rest = methods.get(route.binding) ?? wired(parts.methods, route.binding);
      const prepared = rest.prepare(admission.team.id, route.captures);
      const work = prepared instanceof Promise ? await prepared : prepared;
      checkMediaType(parts, route, request);
      const body = await request.readBody(parts.bodyBytesMax);
      const message = messageOf(parts, route, { request, body });
      const answer = await work(message, new RestCall(request, admission.principal));
      parts.onAnswered();
      return respond(parts, route, request, { answer, rate: admission.rateNow() });
    } catch (thrown) {
      return refuse(parts, request, refusalFrom(thrown), admission.rateNow());
    }
  };
}

/** The signal is made when it is asked for: an app that answers at once never does. */
class RestCall implements Call {
  readonly principal: Principal;
  readonly #request: HttpRequest;

  constructor(request: HttpRequest, principal: Principal) {
    this.principal = principal;
    this.#request = request;
  }

  get requestId(): string {
    return this.#request.requestId;
  }

  get signal(): AbortSignal {
    return this.#request.signal();
  }
}

function wired(methods: readonly RestMethod[], { method }: Binding): RestMethod {
  const rest = methods.find((each) => each.method === method);
  if (!rest) throw new Error(`No REST method is wired for ${method.toString()}`);
  return rest;
}

function pathRefusal(match: Exclude<Match, { kind: "found" | "not_found" }>): Refusal {
  if (match.kind === "method_not_allowed") {
    return fail("METHOD_NOT_ALLOWED", { metadata: { allow: match.allow.join(", ") } });
  }
  return fail("INVALID_ARGUMENT", {
    problem: "The path holds bytes that are not an escaped UTF-8 text. Write a literal % as %25.",
  });
}

function checkMediaType({ transcoder }: RestDoorParts, route: MatchedRoute, request: HttpRequest): void {
  const problem = transcoder.checkMediaType(route, {
    contentType: request.header("content-type"),
    contentEncoding: request.header("content-encoding"),
  });
  if (problem) throw problemRefusal(problem);
}

function messageOf(
  { transcoder, bodyBytesMax }: RestDoorParts,
  route: MatchedRoute,
  { request, body }: { request: HttpRequest; body: BodyOutcome },
): Message {
  if (body.kind === "gone") throw body.reason ? beforeRun(body.reason) : fail("CANCELLED");
  if (body.kind === "too_large") {
    throw fail("REQUEST_TOO_LARGE", { metadata: { bytes_max: String(bodyBytesMax) } });
  }
  const decoded = transcoder.decodeRequest(route, {
    contentType: request.header("content-type"),
    contentEncoding: request.header("content-encoding"),
    body: body.bytes,
  });
  if (decoded.kind === "problem") throw problemRefusal(decoded);
  return decoded.message;
}

/** The same refusal, of a request whose app can't have started: it may be sent again. */
function beforeRun({ reason, retryAfterMs }: Refusal): Refusal {
  return fail(reason, retryAfterMs === undefined ? {} : { retryAfterMs });
}

const problemReasons = {
  invalid_json: "INVALID_JSON",
  invalid_argument: "INVALID_ARGUMENT",
  unsupported_media_type: "UNSUPPORTED_MEDIA_TYPE",
} as const;

function problemRefusal({ problem, param, words }: Problem): Refusal {
  return fail(problemReasons[problem], { problem: words, ...(param !== null && { param }) });
}

function respond(
  parts: RestDoorParts,
  route: MatchedRoute,
  request: HttpRequest,
  { answer, rate }: { answer: Message; rate: RateReport },
): HttpResponse {
  const { contentType, body } = parts.transcoder.encodeResponse(route.binding, answer);
  const headers = rateLimitHeaders(rate.decision, rate.policy, parts.clock.unixMs());
  headers.push("Content-Type", contentType, "X-Request-Id", request.requestId);
  return { status: 200, headers, body };
}

function refuse(
  parts: RestDoorParts,
  request: HttpRequest,
  refusal: Refusal,
  rate: RateReport | undefined,
): HttpResponse {
  parts.onRefusal(refusal, request);
  const rateHeaders = rate ? rateLimitHeaders(rate.decision, rate.policy, parts.clock.unixMs()) : [];
  return refusalResponse(refusal, {
    requestId: request.requestId,
    accept: request.header("accept"),
    rateHeaders,
  });
}
