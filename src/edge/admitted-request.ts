import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { Call, Principal } from "../auth/principal.ts";
import type { Clock } from "../clock.ts";
import { fail, type Refusal } from "../error.ts";
import type { Admission, RateReport } from "../run/admission.ts";
import { rateReportHeaders } from "../run/rate-report-headers.ts";
import type { BodyOutcome, HttpRequest, HttpResponse } from "./http.ts";
import type { BodyHeaders } from "./transcode/media.ts";
import type { Problem } from "./transcode/problem.ts";
import type { MatchedRoute } from "./transcode/route-table.ts";
import type { Transcoder } from "./transcode/transcoder.ts";
import { wholeBody } from "./whole-body.ts";

/** A method that REST callers reach with an API key. */
export interface RestMethod {
  readonly method: DescMethodUnary;
  /** What does the work. Decided from the path alone, before the body is read; refuses where it can't be done. */
  readonly prepare: (teamId: string, captures: MatchedRoute["captures"]) => RestWork | Promise<RestWork>;
}

/** Answers without a promise where it can at once. */
export type RestWork = (request: Message, call: Call) => Message | Promise<Message>;

/** What a request asks for. */
export interface Asked {
  readonly request: HttpRequest;
  readonly route: MatchedRoute;
  readonly rest: RestMethod;
}

export interface AnsweringParts {
  readonly clock: Clock;
  readonly transcoder: Transcoder;
  readonly bodyBytesMax: number;
  /** Told of every request that was answered with success. */
  readonly onAnswered: () => void;
}

/**
 * What is left of a request's decisions after the gate, in their order, and the call that the work is told of. Each
 * step goes on at once with what is there, and makes a promise only of what is still to come: a promise costs more than
 * most of the steps do.
 */
export class AdmittedRequest implements Call {
  readonly #parts: AnsweringParts;
  readonly #asked: Asked;
  readonly #admission: Admission & { readonly kind: "admitted" };
  #hasWaited = false;

  constructor(parts: AnsweringParts, asked: Asked, admission: Admission & { readonly kind: "admitted" }) {
    this.#parts = parts;
    this.#asked = asked;
    this.#admission = admission;
  }

  get principal(): Principal {
    return this.#admission.principal;
  }

  get requestId(): string {
    return this.#asked.request.requestId;
  }

  /** Made when it is asked for: an app that answers at once never does. */
  get signal(): AbortSignal {
    return this.#asked.request.signal();
  }

  /** The team's numbers as they are when this is asked. */
  rate(): RateReport {
    return this.#hasWaited ? this.#admission.rateNow() : this.#admission.rate;
  }

  /** The answer of a success. Throws or rejects with what the request is refused for. */
  answer(): HttpResponse | Promise<HttpResponse> {
    const { rest, route } = this.#asked;
    const work = rest.prepare(this.#admission.team.id, route.captures);
    const answer = work instanceof Promise ? this.#readLater(work) : this.#read(work);
    this.#hasWaited = answer instanceof Promise;
    return answer;
  }

  async #readLater(work: Promise<RestWork>): Promise<HttpResponse> {
    return this.#read(await work);
  }

  #read(work: RestWork): HttpResponse | Promise<HttpResponse> {
    const { request, route } = this.#asked;
    const { transcoder, bodyBytesMax } = this.#parts;
    const problem = transcoder.checkMediaType(route, bodyHeadersOf(request));
    if (problem) throw problemRefusal(problem);
    const body = request.readBody(bodyBytesMax);
    return body instanceof Promise ? this.#runLater(work, body) : this.#run(work, body);
  }

  async #runLater(work: RestWork, body: Promise<BodyOutcome>): Promise<HttpResponse> {
    return this.#run(work, await body);
  }

  #run(work: RestWork, body: BodyOutcome): HttpResponse | Promise<HttpResponse> {
    const answer = work(this.#messageOf(body), this);
    return answer instanceof Promise ? this.#succeedLater(answer) : this.#succeed(answer);
  }

  async #succeedLater(answer: Promise<Message>): Promise<HttpResponse> {
    return this.#succeed(await answer);
  }

  #succeed(answer: Message): HttpResponse {
    const { request, route } = this.#asked;
    const { transcoder, clock, onAnswered } = this.#parts;
    onAnswered();
    const { contentType, body } = transcoder.encodeResponse(route.binding, answer);
    const headers = [
      ...rateReportHeaders(this.rate(), clock),
      ...["Content-Type", contentType, "X-Request-Id", request.requestId],
    ];
    return { status: 200, headers, body };
  }

  #messageOf(body: BodyOutcome): Message {
    const { request, route } = this.#asked;
    const { transcoder, bodyBytesMax } = this.#parts;
    const bytes = wholeBody(body, bodyBytesMax);
    const decoded = transcoder.decodeRequest(route, { ...bodyHeadersOf(request), body: bytes });
    if (decoded.kind === "problem") throw problemRefusal(decoded);
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

function problemRefusal({ problem, param, words }: Problem): Refusal {
  return fail(problemReasons[problem], { problem: words, ...(param !== null && { param }) });
}
