import type { HttpRequest } from "../edge/http.ts";
import type { Refusal } from "../error.ts";
import type { Log } from "../log.ts";
import type { Door, Metrics } from "../metrics.ts";
import { reasons } from "../reasons.ts";
import type { OnRefusal } from "../rpc/on-refusal.ts";
import type { Report } from "../server/transport-event.ts";

/** Where the doors tell what happened: the log has the private cause, the metrics the count. */
export interface Reporting {
  rest(refusal: Refusal, request: HttpRequest): void;
  readonly rpc: OnRefusal;
  answered(door: Door): void;
  readonly transport: Report;
}

export interface ReportingParts {
  readonly log: Log;
  readonly metrics: Metrics;
  /** The door of most who come to the listener: what never became a request counts there. */
  readonly door: Door;
}

/**
 * A refusal that is our fault or the app's is a warning or an error with its cause; one that is the caller's is
 * told at debug level, so that nobody can fill a disk by being refused.
 */
export function createReporting({ log, metrics, door }: ReportingParts): Reporting {
  const tell = (door: Door, refusal: Refusal, facts: { requestId: string; method: string }) => {
    metrics.requestEnded(door, refusal.reason);
    if (refusal.reason === "RATE_LIMIT_EXCEEDED") metrics.limitRefused();
    const { reason, message, cause } = refusal;
    const ours = reasons[reason].type === "api_error" && reason !== "CANCELLED";
    const level = reason === "INTERNAL" ? "error" : ours ? "warn" : "debug";
    log[level]({ door, reason, ...facts, ...(cause !== undefined && { cause }) }, message);
  };
  return {
    rest: (refusal, { requestId, method, target }) => {
      // The path alone: a query may hold anything.
      tell("rest", refusal, {
        requestId,
        method: `${method} ${target.split("?", 1)[0]?.slice(0, pathCharactersMax)}`,
      });
    },
    rpc: (refusal, { requestId, method }) => {
      tell("rpc", refusal, { requestId, method: method.toString() });
    },
    answered: (door) => metrics.requestEnded(door, "OK"),
    transport: (event) => {
      if (event.kind === "request_refused" && event.reason) metrics.requestEnded(door, event.reason);
      if (event.kind === "untrusted_forwarded_for") log.warn(event, untrustedWords);
      else if (event.kind === "handler_failed" || event.kind === "listener_failed")
        log.error(event, event.kind);
      else log.debug(event, event.kind);
    },
  };
}

const pathCharactersMax = 200;
const untrustedWords =
  "X-Forwarded-For arrives, but no proxy is trusted, so all callers behind it count as one address. " +
  "Set KEYRUN_TRUST_PROXY to the number of proxies in front of Keyrun.";
