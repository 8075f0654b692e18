import type {
  Answer,
  BodyOutcome,
  HttpRequest,
  HttpResponse,
  Mount,
  Refused,
  StreamedResponse,
  WholeResponse,
} from "../../http/handler.ts";
import type { Outcomes } from "../../http/outcomes.ts";
import { refusalAnswer } from "../../http/refusal-response.ts";
import { headerOf } from "../../http/request-head.ts";
import { fail, type Refusal, refusalFrom, unavailable } from "../../refusal/refusal.ts";
import type { Abortable, RequestTracker } from "../drain.ts";
import {
  addTrailers,
  cutOff,
  type Incoming,
  isAnswerable,
  isGone,
  isWhole,
  sendWhole,
  withBytes,
  withoutBody,
  writeHead,
} from "../node-http.ts";
import { type Report, type TransportLimits, transportLimits } from "../transport.ts";
import { RequestBody } from "./request-body.ts";
import { RequestFacts, type RequestFactsOptions } from "./request-facts.ts";
import { abandonBody, streamBody } from "./stream-body.ts";

/**
 * Answers one of Node's requests through a handler, after everything that arrived with it was read.
 * Never throws.
 */
export type Serve = (mount: Mount, incoming: Incoming) => void;

export interface ServeOptions extends Omit<RequestFactsOptions, "onUnreadEntry"> {
  readonly requests: RequestTracker;
  readonly outcomes: Outcomes;
  readonly report: Report;
  readonly limits?: TransportLimits;
}

/**
 * Converts Node's request objects of HTTP/1.1 and HTTP/2 into plain values for the handlers. This
 * is the one place where the refusal of a handler is rendered, logged and counted.
 */
export function createServe(options: ServeOptions): Serve {
  const { limits = transportLimits } = options;
  const batch = createBatch(limits.batchedRequestsMax);
  const trustsProxies = options.trustProxyHops > 0;
  let warned = false;
  const warn = (kind: "untrusted_forwarded_for" | "unread_forwarded_for") => {
    if (!warned) options.report({ kind });
    warned = true;
  };
  const ofExchanges = { ...options, onUnreadEntry: () => warn("unread_forwarded_for") };
  return (mount, incoming) => {
    if (!warned && !trustsProxies && headerOf(incoming.head, "x-forwarded-for") !== undefined) {
      warn("untrusted_forwarded_for");
    }
    batch(new Exchange(mount, incoming, ofExchanges, limits));
  };
}

/** Work for a batch. Never throws. */
interface Task {
  run(): void;
}

/**
 * Returns a function that delays tasks until everything that has arrived by now is read. The
 * requests of one turn of the event loop are then answered one after the other: code and tables
 * that one request needs are still in the processor's caches for the next, and a small body, which
 * comes with its head, has arrived whole. At most `tasksMax` tasks wait: each keeps what Node made
 * for its request, also if it will be refused.
 */
export function createBatch(tasksMax: number): (task: Task) => void {
  let waiting: Task[] = [];
  const runAll = () => {
    const tasks = waiting;
    waiting = [];
    for (const task of tasks) task.run();
  };
  return (task) => {
    const count = waiting.push(task);
    if (count === 1) setImmediate(runAll);
    if (count === tasksMax) runAll();
  };
}

/** One of Node's requests as a plain value, until it is answered. */
class Exchange extends RequestFacts implements HttpRequest, Abortable, Task {
  readonly #mount: Mount;
  readonly #incoming: Incoming;
  readonly #context: ServeOptions & RequestFactsOptions;
  readonly #body: RequestBody;
  /** Whether the last byte of the answer was passed to Node. */
  #finished = false;
  #failed = false;
  /** The place with the tracker; -1 while it does not watch the request. */
  #watchedAt = -1;
  /** What ends the work early. Made once somebody asks for its signal. */
  #end: AbortController | undefined;

  constructor(
    mount: Mount,
    incoming: Incoming,
    context: ServeOptions & RequestFactsOptions,
    limits: TransportLimits,
  ) {
    super(incoming, context);
    this.#mount = mount;
    this.#incoming = incoming;
    this.#context = context;
    this.#body = new RequestBody(incoming, limits);
    if (incoming.notes !== undefined) {
      incoming.notes.entry = mount.entry;
      incoming.notes.request = this;
    }
  }

  async run(): Promise<void> {
    // A caller that has disconnected can read no answer, so its request is not served.
    if (!isAnswerable(this.#incoming.req, this.#incoming.res)) return;
    if (!this.#incoming.unread.mayBegin()) {
      this.#refuse({ refusal: unavailable({ isQuiet: true }) });
      return;
    }
    let answer: Answer;
    try {
      answer = await this.#mount.handler(this);
    } catch (thrown) {
      answer = { refusal: refusalFrom(thrown) };
    }
    this.#respond(answer);
  }

  #respond(answer: Answer): void {
    if ("refusal" in answer) this.#refuse(answer);
    else if (isWhole(answer)) this.#respondWhole(withBytes(answer));
    else void this.#stream(answer);
  }

  #respondWhole(answer: WholeResponse): void {
    if (!this.#incoming.unread.hasRoom(answer.body.length)) this.#refuseToHold();
    else if (this.#send(answer)) this.#succeed(answer);
  }

  /** Nobody reads the answers that wait, so there is no room for this one. */
  #refuseToHold(): void {
    const mayHaveRun = this.method !== "GET" && this.method !== "HEAD";
    this.#refuse({ refusal: unavailable({ mayHaveRun, isQuiet: true }) });
  }

  #succeed({ uncounted }: HttpResponse): void {
    if (!uncounted) this.#context.outcomes.succeeded(this.#mount.entry, this);
  }

  #refuse({ refusal, headers, response }: Refused): void {
    const { entry, refusalForm: form } = this.#mount;
    this.#context.outcomes.refused(refusal, entry, this);
    const answer =
      response ?? refusalAnswer(refusal, this, { form, ...(headers && { rateHeaders: headers }) });
    this.#send(this.#incoming.unread.hasRoom(answer.body.length) ? answer : withoutBody(answer));
  }

  readBody(bytesMax: number): BodyOutcome | Promise<BodyOutcome> {
    const atHand = this.#body.atHand(bytesMax, this.reservation);
    if (atHand !== undefined) return atHand;
    this.#watch();
    return this.#body.read(bytesMax);
  }

  bodyChunks(): AsyncIterable<Uint8Array> {
    const chunks = this.#body.chunks(this.reservation);
    this.#watch();
    return chunks;
  }

  leaveBody(): void {
    this.#body.leave();
  }

  get signal(): AbortSignal {
    if (this.#end === undefined) {
      this.#end = new AbortController();
      this.#watch();
      this.#watchCaller();
    }
    return this.#end.signal;
  }

  #watchCaller(): void {
    const gone = () => {
      if (!this.#finished) this.abort(fail("CANCELLED"));
    };
    if (isGone(this.#incoming.res)) gone();
    else this.#incoming.onClose = gone;
  }

  /** Registers the request with the tracker until it ends, so that a drain can abort it. */
  #watch(): void {
    if (this.#watchedAt >= 0 || this.#finished) return;
    this.#watchedAt = this.#context.requests.watch(this);
  }

  abort(reason: Refusal): void {
    this.#end ??= new AbortController();
    this.#end.abort(reason);
    this.#body.giveUp(reason);
  }

  /**
   * Writes the answer if the caller is still connected. Returns false if Node can't send the
   * answer.
   */
  #send(response: WholeResponse): boolean {
    this.#finish();
    const { res } = this.#incoming;
    try {
      const isEndedLater = this.#body.drop();
      if (!isGone(res)) sendWhole(this.#incoming, response, { ended: !isEndedLater });
      return true;
    } catch (cause) {
      this.#failToSend(cause);
      return false;
    }
  }

  /**
   * The request runs until the last byte is written: until then its caller, or a drain, may still
   * end it.
   */
  async #stream(response: StreamedResponse): Promise<void> {
    const { res, unread } = this.#incoming;
    try {
      if (!unread.hasRoom(0)) {
        abandonBody(response.body);
        return this.#refuseToHold();
      }
      if (!isGone(res)) writeHead(res, response, undefined);
      if (this.method === "HEAD") abandonBody(response.body);
      const isWritten = this.method === "HEAD" || (await streamBody(this.#incoming, response.body));
      this.#finish();
      if (isWritten) this.#endStream(response);
    } catch (cause) {
      this.#finish();
      abandonBody(response.body);
      if (!isGone(res)) this.#failToSend(cause);
    }
  }

  #endStream(response: StreamedResponse): void {
    const { res } = this.#incoming;
    const isEndedLater = this.#body.drop();
    if (response.trailers !== undefined) addTrailers(res, response.trailers);
    if (!isEndedLater) res.end();
    this.#succeed(response);
  }

  #finish(): void {
    this.#finished = true;
    this.freeReservation();
    if (this.#watchedAt < 0) return;
    this.#context.requests.unwatch(this.#watchedAt);
    this.#watchedAt = -1;
  }

  /**
   * The handler returned an answer that Node can't send. If no byte of it was sent, the caller gets
   * a refusal instead.
   */
  #failToSend(cause: unknown): void {
    const { res } = this.#incoming;
    const refusal = refusalFrom(cause);
    const isFirst = !this.#failed;
    this.#failed = true;
    if (isFirst && !res.headersSent) {
      this.#refuse({ refusal });
      return;
    }
    if (isFirst) this.#context.outcomes.refused(refusal, this.#mount.entry, this);
    cutOff(res);
  }
}
