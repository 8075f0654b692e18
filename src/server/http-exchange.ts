import type { BodyOutcome, HttpDoor, HttpRequest, HttpResponse } from "../edge/http.ts";
import { refusalResponse } from "../edge/refusal-response.ts";
import { fail, type Refusal } from "../error.ts";
import {
  isAnswerable,
  isGone,
  isHttp2Response,
  type NodeRequest,
  type NodeResponse,
  send,
  sendUnended,
} from "./node-http.ts";
import { bodyAtHand, dropBody, readBody } from "./request-body.ts";
import {
  addressOf,
  authorizationsOf,
  headerOf,
  type RequestFactsOptions,
  requestIdOf,
} from "./request-facts.ts";
import type { Abortable, RequestTracker } from "./request-tracker.ts";
import type { Report } from "./transport-event.ts";
import { type TransportLimits, transportLimits } from "./transport-limits.ts";
import { createTurn, type Task } from "./turn.ts";

export interface ServeOptions extends RequestFactsOptions {
  readonly requests: RequestTracker;
  readonly report: Report;
  readonly limits?: TransportLimits;
}

/** Answers one of node's requests through a door, once what arrived with it was read. Never throws. */
export type Serve = (door: HttpDoor, req: NodeRequest, res: NodeResponse) => void;

/**
 * The bridge from node's request objects, of HTTP/1.1 and of HTTP/2, to the edge's plain values. All that a request
 * may be asked is worked out when it is asked: most are answered without most of it.
 */
export function createServe(options: ServeOptions): Serve {
  const context = { ...options, limits: options.limits ?? transportLimits };
  const thisTurn = createTurn();
  let toldOfForwardedFor = options.trustProxyHops > 0;
  return (door, req, res) => {
    if (!toldOfForwardedFor && req.headers["x-forwarded-for"] !== undefined) {
      toldOfForwardedFor = true;
      options.report({ kind: "untrusted_forwarded_for" });
    }
    thisTurn(new Exchange(door, { req, res, context }));
  };
}

type ServeContext = ServeOptions & { readonly limits: TransportLimits };

class Exchange implements HttpRequest, Abortable, Task {
  readonly #door: HttpDoor;
  readonly #req: NodeRequest;
  readonly #res: NodeResponse;
  readonly #context: ServeContext;
  #address: string | undefined;
  #requestId: string | undefined;
  #answered = false;
  #failed = false;
  #body: "unasked" | "asked" | "read" = "unasked";
  #watched = false;
  #dropping: boolean | undefined;
  #endBody: ((outcome: BodyOutcome) => void) | undefined;
  #abort: AbortController | undefined;
  #abortReason: Refusal | undefined;

  constructor(
    door: HttpDoor,
    { req, res, context }: { req: NodeRequest; res: NodeResponse; context: ServeContext },
  ) {
    this.#door = door;
    this.#req = req;
    this.#res = res;
    this.#context = context;
  }

  run(): void {
    // Of who is gone not even the address is known: no look-up may be done on nobody's account.
    if (!isAnswerable(this.#req, this.#res)) return;
    try {
      const answer = this.#door(this);
      if (answer instanceof Promise) this.#answerLater(answer);
      else this.answer(answer);
    } catch (cause) {
      this.failed(cause);
    }
  }

  #answerLater(answer: Promise<HttpResponse>): void {
    answer.then(
      (response) => this.answer(response),
      (cause) => this.failed(cause),
    );
  }

  get method(): string {
    return this.#req.method ?? "";
  }

  get target(): string {
    const url = this.#req.url ?? "/";
    return url.startsWith("/") ? url : originForm(url);
  }

  header(name: string): string | undefined {
    return headerOf(this.#req, name);
  }

  get authorizations(): readonly string[] {
    return authorizationsOf(this.#req);
  }

  get address(): string {
    this.#address ??= addressOf(this.#req, this.#context);
    return this.#address;
  }

  get requestId(): string {
    this.#requestId ??= requestIdOf(this.#req, this.#context);
    return this.#requestId;
  }

  readBody(bytesMax: number): BodyOutcome | Promise<BodyOutcome> {
    if (this.#body !== "unasked") throw new Error("readBody was called twice");
    const atHand = bodyAtHand(this.#req, this.#res, bytesMax);
    this.#body = atHand?.kind === "whole" ? "read" : "asked";
    if (atHand !== undefined) return atHand;
    return new Promise((resolve) => {
      this.#watch();
      this.#endBody = readBody(this.#req, this.#res, { bytesMax, done: resolve });
    });
  }

  signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      this.#watch();
      const gone = () => {
        if (!this.#answered) this.abort(fail("CANCELLED"));
      };
      if (this.#abortReason !== undefined) this.#abort.abort(this.#abortReason);
      else if (isGone(this.#res)) gone();
      else this.#res.once("close", gone);
    }
    return this.#abort.signal;
  }

  #watch(): void {
    this.#watched = true;
    this.#context.requests.watch(this);
  }

  abort(reason: Refusal): void {
    if (this.#abortReason !== undefined) return;
    this.#abortReason = reason;
    this.#abort?.abort(reason);
    this.#endBody?.({ kind: "gone", reason });
  }

  /** Writes the answer; nothing where the caller is gone. */
  answer(response: HttpResponse): void {
    this.#answered = true;
    // Answered before the body was there, as at a deadline: what still comes is no longer kept.
    this.#endBody?.({ kind: "gone" });
    if (this.#watched) this.#context.requests.unwatch(this);
    const res = this.#res;
    if (isGone(res)) return;
    try {
      if (this.#body !== "read") {
        this.#dropping ??= dropBody(this.#req, this.#context.limits, () => res.end());
      }
      if (this.#dropping && closesAfter(this.#req, res)) sendUnended(res, response);
      else send(res, response);
    } catch (cause) {
      this.failed(cause);
    }
  }

  /** The door broke its promise; the caller gets a whole answer all the same. */
  failed(cause: unknown): void {
    const requestId = this.requestId;
    this.#context.report({ kind: "handler_failed", requestId, cause });
    const once = !this.#failed && !this.#res.headersSent;
    this.#failed = true;
    if (!once) return void this.#res.destroy();
    const accept = this.header("accept");
    this.answer(refusalResponse(fail("INTERNAL"), { requestId, accept, rateHeaders: [] }));
  }
}

/** RFC 9112, section 3.2: an absolute target is taken too, and `*` is a path that nothing answers to. */
function originForm(target: string): string {
  const rest = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/**
 * Whether node would close the connection as soon as the answer ends, and so cut an upload off. Not where the caller
 * waits for a 100 before it uploads.
 */
function closesAfter(req: NodeRequest, res: NodeResponse): boolean {
  return !isHttp2Response(res) && !res.shouldKeepAlive && req.headers.expect === undefined;
}
