import type { Socket } from "node:net";
import { fail } from "../error.ts";
import { isGone, isHttp2Response, type NodeRequest, type NodeResponse } from "./node-http.ts";
import { createHeadCheck, refuse } from "./parser-refusal.ts";
import type { RequestTracker } from "./request-tracker.ts";
import { Roster } from "./roster.ts";
import type { Report } from "./transport-event.ts";
import type { TransportLimits } from "./transport-limits.ts";

export interface RunningAnswersOptions {
  /** Answers a request of either protocol, also one with an `Expect`. What it throws at once is answered 500. */
  onRequest(req: NodeRequest, res: NodeResponse): void;
  readonly requests: RequestTracker;
  newRequestId(): string;
  readonly report: Report;
}

/** One listener's answers that are not done. */
export interface RunningAnswers {
  readonly all: Iterable<NodeResponse>;
  /** Takes a request from node: counts it until it is answered or its caller is gone, and passes it on. */
  take(req: NodeRequest, res: NodeResponse): void;
  /** HTTP/1.1's connections that an answer runs on. */
  busySockets(): ReadonlySet<Socket>;
  /** From now on HTTP/1.1's answers are the last on their connections, those under way included. */
  closeConnections(): void;
}

export function createRunningAnswers(
  { onRequest, requests, newRequestId, report }: RunningAnswersOptions,
  limits: TransportLimits,
): RunningAnswers {
  const all = new Roster<NodeResponse>();
  const refusalOfHead = createHeadCheck(limits);
  const refused = new WeakSet<object>();
  let closing = false;
  // What is thrown out of node's event ends the process, and every other caller's request with it.
  const serve = (req: NodeRequest, res: NodeResponse) => {
    try {
      onRequest(req, res);
    } catch (cause) {
      const requestId = newRequestId();
      report({ kind: "handler_failed", requestId, cause });
      answerFailure(res, requestId);
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
      });
      if (closing) closeConnectionAfter(res);
      const refusal = refusalOfHead(req);
      if (refusal !== undefined) {
        refused.add(req.socket);
        const { reason } = refusal;
        const address = req.socket.remoteAddress ?? "";
        report({ kind: "request_refused", code: reason, reason, address });
        refuse(res, refusal, newRequestId());
      } else if (!isPipelined(res) || !refused.has(req.socket)) serve(req, res);
      // What was pipelined behind a refused request is never acted on: the connection closes before its turn.
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

/** A whole answer where none has begun. Nothing more can be said where one has, or where the caller is gone. */
function answerFailure(res: NodeResponse, requestId: string): void {
  if (isGone(res) || res.headersSent) return void res.destroy();
  try {
    refuse(res, fail("INTERNAL"), requestId);
  } catch {
    res.destroy();
  }
}

/** Whether an answer on the same connection has to come first. */
function isPipelined(res: NodeResponse): boolean {
  return !isHttp2Response(res) && res.socket === null;
}

function closeConnectionAfter(res: NodeResponse): void {
  if (isHttp2Response(res)) return;
  res.shouldKeepAlive = false;
  // An answer that has begun can't say `Connection: close` any more.
  if (res.headersSent) res.once("finish", () => res.req.socket.destroySoon());
}
