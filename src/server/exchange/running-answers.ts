import type { Socket } from "node:net";
import { createHeadCheck } from "../../http/head-check.ts";
import type { Outcomes } from "../../http/outcomes.ts";
import { refusalResponse } from "../../http/refusal-response.ts";
import type { Entry } from "../../metrics.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import {
  headOf,
  type Incoming,
  isGone,
  isHttp2Response,
  type NodeRequest,
  type NodeResponse,
  noteAnswered,
  send,
} from "../node-http.ts";
import type { TransportLimits } from "../transport-limits.ts";
import type { RequestTracker } from "./request-tracker.ts";
import { SlotList } from "./slot-list.ts";

export interface RunningAnswersOptions {
  /**
   * Answers a request over HTTP/1.1 or HTTP/2, also one with an `Expect` header. If it throws
   * synchronously, the answer is a 500.
   */
  onRequest(incoming: Incoming): void;
  readonly requests: RequestTracker;
  newRequestId(): string;
  readonly outcomes: Outcomes;
  /** The entry for requests that are refused by their head alone. */
  readonly entry: Entry;
}

/** One listener's answers that are not finished. */
export interface RunningAnswers {
  readonly all: Iterable<NodeResponse>;
  /**
   * Takes a request from Node and passes it on. Counts it as running until it is answered or its
   * caller has disconnected.
   */
  take(req: NodeRequest, res: NodeResponse): void;
  /** Returns the HTTP/1.1 connections on which an answer is not finished. */
  busySockets(): ReadonlySet<Socket>;
  /**
   * Makes every HTTP/1.1 answer the last on its connection, also those that are already running.
   */
  closeConnections(): void;
}

export function createRunningAnswers(
  { onRequest, requests, newRequestId, outcomes, entry }: RunningAnswersOptions,
  limits: TransportLimits,
): RunningAnswers {
  const all = new SlotList<NodeResponse>();
  const refusalOfHead = createHeadCheck(limits);
  const refused = new WeakSet<object>();
  let closing = false;

  const refuse = ({ head, res }: Incoming, refusal: Refusal) => {
    const requestId = newRequestId();
    const { method, target, peer: address } = head;
    outcomes.refused(refusal, entry, { requestId, method, target, address });
    refuseAndClose(res, refusal, requestId);
  };
  // An error that is thrown from Node's event would end the process, and with it the requests of
  // all callers.
  const serve = (incoming: Incoming) => {
    try {
      onRequest(incoming);
    } catch (cause) {
      refuse(incoming, fail("INTERNAL", { cause }));
    }
  };
  return {
    all,
    take(req, res) {
      const place = all.add(res);
      requests.begin();
      res.on("close", () => {
        all.remove(place);
        requests.end();
        noteAnswered(res);
      });
      if (closing) closeConnectionAfter(res);
      const incoming = { head: headOf(req), req, res };
      const refusal = refusalOfHead(incoming.head);
      if (refusal !== undefined) {
        refused.add(req.socket);
        refuse(incoming, refusal);
      } else if (!isPipelined(res) || !refused.has(req.socket)) serve(incoming);
      // A request that was pipelined behind a refused one is ignored: the connection closes before
      // its turn.
    },
    busySockets() {
      const busy = new Set<Socket>();
      for (const res of all) if (!isHttp2Response(res)) busy.add(res.req.socket);
      return busy;
    },
    closeConnections() {
      closing = true;
      for (const res of all) closeConnectionAfter(res);
    },
  };
}

/**
 * Sends the refusal if no answer has begun. Over HTTP/1.1 the connection closes after it. A request
 * that is refused by its head is not trusted, so its request id and its Accept header are ignored.
 */
function refuseAndClose(res: NodeResponse, refusal: Refusal, requestId: string): void {
  if (isGone(res) || res.headersSent) return void res.destroy();
  try {
    if (!isHttp2Response(res)) res.shouldKeepAlive = false;
    send(res, refusalResponse(refusal, { requestId }));
  } catch {
    res.destroy();
  }
}

/** Whether another answer must be sent first on the same connection. */
function isPipelined(res: NodeResponse): boolean {
  return !isHttp2Response(res) && res.socket === null;
}

function closeConnectionAfter(res: NodeResponse): void {
  if (isHttp2Response(res)) return;
  res.shouldKeepAlive = false;
  // An answer that has begun can no longer say `Connection: close`.
  if (res.headersSent) res.once("finish", () => res.req.socket.destroySoon());
}
