/** How requests end: each outcome is counted and logged once, and noted for its observers. */

import type { Clock } from "../base/clock.ts";
import type { Log } from "../log/log.ts";
import type { Entry, Metrics } from "../metrics/metrics.ts";
import { rowOf } from "../refusal/reasons.ts";
import { filled, Outage, type Refusal } from "../refusal/refusal.ts";
import type { NameRoute, RequestNotes } from "./request-notes.ts";

/** The facts of a request from which the log line of its refusal is made. */
export interface LoggedRequest {
  readonly requestId: string;
  /** The parser's error code if the target is "". */
  readonly method: string;
  /** As received; "" if the bytes never became a request. */
  readonly target: string;
  /** The client's address. */
  readonly address: string;
  /** Set once the outcome of the request is counted: it is not counted again. */
  isCounted?: boolean;
  /** Undefined if requests are not watched, and for bytes that never became a request. */
  readonly notes?: RequestNotes | undefined;
  /** The team of the request's key, once its secret was right: its outcome is the team's, too. */
  teamId?: string | undefined;
  /** When the request began, by the monotonic clock; absent if it never became a request. */
  readonly startMs?: number;
  /** Set once the answer is a stream. How long it takes is then no matter of Keyrun's. */
  isStream?: boolean;
}

/** Counts and logs how requests ended, each once. */
export interface Outcomes {
  /** Counts a success. */
  succeeded(entry: Entry, request: LoggedRequest): void;
  /**
   * Counts a refusal and writes its log line: the reason, the route, and the private cause. A
   * caller may have put a key anywhere, so the line has no text of the request: neither its path
   * nor the refusal's own words, which may quote a field.
   */
  refused(refusal: Refusal, entry: Entry, asked: LoggedRequest): void;
}

export function createOutcomes({
  log,
  metrics,
  clock,
  nameRoute,
}: {
  readonly log: Log;
  readonly metrics: Pick<Metrics, "requestEnded" | "limitRefused" | "shed" | "outageRefused">;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly nameRoute: NameRoute;
}): Outcomes {
  const ended = ({ teamId, startMs, isStream }: LoggedRequest) => {
    const isTimed = startMs !== undefined && isStream !== true;
    return { teamId, seconds: isTimed ? (clock.monotonicMs() - startMs) / 1_000 : undefined };
  };
  return {
    succeeded(entry, request) {
      if (request.isCounted) return;
      request.isCounted = true;
      metrics.requestEnded(entry, "OK", ended(request));
    },
    refused(refusal, entry, asked) {
      if (asked.isCounted) return;
      asked.isCounted = true;
      const { requestId, method, target, address } = asked;
      const { reason, metadata, cause, appId } = refusal;
      metrics.requestEnded(entry, reason, ended(asked));
      if (reason === "RATE_LIMIT_EXCEEDED") metrics.limitRefused();
      if (reason === "OVERLOADED") metrics.shed();
      if (cause instanceof Outage) metrics.outageRefused(cause.kind);
      const row = rowOf(reason);
      const request = target === "" ? method : `${httpMethod(method)} ${nameRoute(target) ?? "(no route)"}`;
      const details = { ...(appId !== undefined && { appId }), ...(cause !== undefined && { cause }) };
      const level = refusal.isQuiet ? "debug" : row.log;
      log[level]({ entry, reason, requestId, request, address, ...details }, filled(row.words, metadata));
    },
  };
}

const methods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]);

/** Over HTTP/2 a method may be any word. OpenTelemetry calls the others `_OTHER` too. */
export function httpMethod(method: string): string {
  return methods.has(method) ? method : "_OTHER";
}

/**
 * The same outcomes, written into the notes of their requests, too. The first outcome of a request
 * holds. `onUnread` is called with the refusal of bytes that never became a request: they have no
 * notes.
 */
export function noteOutcomes(
  outcomes: Outcomes,
  onUnread: (refusal: Refusal, entry: Entry, asked: LoggedRequest) => void,
): Outcomes {
  return {
    succeeded(entry, request) {
      note(request, entry, "OK");
      outcomes.succeeded(entry, request);
    },
    refused(refusal, entry, asked) {
      if (asked.notes === undefined) onUnread(refusal, entry, asked);
      else note(asked, entry, refusal);
      outcomes.refused(refusal, entry, asked);
    },
  };
}

function note(request: LoggedRequest, entry: Entry, outcome: "OK" | Refusal): void {
  const { notes } = request;
  if (notes === undefined || notes.outcome !== undefined) return;
  notes.entry = entry;
  notes.outcome = outcome;
  notes.request ??= request;
}
