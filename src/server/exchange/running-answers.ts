/** The answers of a listener that are not finished, from Node's request to the closed response. */

import type { Socket } from "node:net";
import type { Outcomes } from "../../http/outcomes.ts";
import { refusalResponse } from "../../http/refusal-response.ts";
import { createHeadCheck } from "../../http/request-head.ts";
import type { RequestNotes, RequestWatch } from "../../http/request-notes.ts";
import type { Entry } from "../../metrics/metrics.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import { type RequestTracker, SlotList } from "../drain.ts";
import {
  headOf,
  type Incoming,
  isGone,
  isHttp2Request,
  isHttp2Response,
  isRefusedByParser,
  isSent,
  type NodeRequest,
  type NodeResponse,
  noteAnswered,
  sendWhole,
} from "../node-http.ts";
import type { Report, TransportLimits } from "../transport.ts";
import { UnreadAnswer, type UnreadAnswers } from "../unread-answers.ts";

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
  readonly report: Report;
  /** Undefined: requests have no notes. */
  readonly watch?: RequestWatch | undefined;
}

/** Keeps the answers of one listener that are not finished. */
export function createRunningAnswers(
  { onRequest, requests, newRequestId, outcomes, entry, report, watch }: RunningAnswersOptions,
  { limits, unread }: { readonly limits: TransportLimits; readonly unread: UnreadAnswers },
) {
  const all = new SlotList<NodeResponse>();
  const refusalOfHead = createHeadCheck(limits);
  const refused = new WeakSet<object>();
  // Answers must keep the order of their requests, so there is no cheaper way to refuse one.
  const closeAtOnce = ({ head, req }: Incoming) => {
    if (req.socket.destroyed) return;
    report({ kind: "connection_closed", by: "pipelined_requests", address: head.peer });
    req.socket.destroy();
  };
  let closing = false;

  const refuse = (incoming: Incoming, refusal: Refusal) => {
    const requestId = newRequestId();
    const { head, notes } = incoming;
    const { method, target, peer: address } = head;
    outcomes.refused(refusal, entry, { requestId, method, target, address, notes });
    refuseAndClose(incoming, refusal, requestId);
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
  const noteEnd = (res: NodeResponse, notes: RequestNotes) => {
    // The parser's refusal was noted already.
    if (isRefusedByParser(res)) return;
    // The caller has left, and the work for it has yet to notice.
    if (!isSent(res)) notes.outcome ??= fail("CANCELLED");
    watch?.ended(notes, res.headersSent ? res.statusCode : undefined);
  };
  return {
    all: all as Iterable<NodeResponse>,
    /**
     * Takes a request from Node and passes it on. Counts it as running until it is answered or its
     * caller has disconnected.
     */
    take(req: NodeRequest, res: NodeResponse): void {
      const place = all.add(res);
      const connection = unread.of(connectionOf(req));
      const unreadAnswer = new UnreadAnswer(unread, connection);
      const head = headOf(req);
      const notes = watch?.begun(head, entry);
      const incoming: Incoming = { head, req, res, unread: unreadAnswer, notes, onClose: undefined };
      requests.begin();
      res.on("close", () => {
        all.remove(place);
        requests.end();
        noteAnswered(res);
        unreadAnswer.end();
        incoming.onClose?.();
        if (notes !== undefined) noteEnd(res, notes);
      });
      if (!isHttp2Request(req) && connection.requests > limits.concurrentStreamsMax) {
        closeAtOnce(incoming);
        return;
      }
      if (closing) closeConnectionAfter(res);
      const refusal = refusalOfHead(incoming.head);
      if (refusal !== undefined) {
        refused.add(req.socket);
        refuse(incoming, refusal);
      } else if (!isPipelined(res) || !refused.has(req.socket)) serve(incoming);
      // A request that was pipelined behind a refused one is ignored: the connection closes before
      // it could be answered.
    },
    /** Returns the HTTP/1.1 connections on which an answer is not finished. */
    busySockets(): ReadonlySet<Socket> {
      const busy = new Set<Socket>();
      for (const res of all) if (!isHttp2Response(res)) busy.add(res.req.socket);
      return busy;
    },
    /** Makes every HTTP/1.1 answer the last on its connection, also those that run already. */
    closeConnections(): void {
      closing = true;
      for (const res of all) closeConnectionAfter(res);
    },
  };
}

/**
 * Sends the refusal if no answer has begun. Over HTTP/1.1 the connection closes after it. A request
 * that is refused by its head is not trusted, so its request id and its Accept header are ignored.
 */
function refuseAndClose(incoming: Incoming, refusal: Refusal, requestId: string): void {
  const { res } = incoming;
  if (isGone(res) || res.headersSent) return void res.destroy();
  try {
    if (!isHttp2Response(res)) res.shouldKeepAlive = false;
    sendWhole(incoming, refusalResponse(refusal, { requestId }));
  } catch {
    res.destroy();
  }
}

/** A stream that is closed already has no session, and counts by itself. */
function connectionOf(req: NodeRequest): object {
  return isHttp2Request(req) ? (req.stream.session ?? req.stream) : req.socket;
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
