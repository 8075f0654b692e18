import type { Log } from "../log.ts";
import type { Entry, Metrics } from "../metrics.ts";
import { rowOf } from "../refusal/reasons.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { pathOf } from "./request-head.ts";

/** What the log line of a refusal says about the request. */
export interface LoggedRequest {
  readonly requestId: string;
  readonly method: string;
  readonly target: string;
  /** The client's address. */
  readonly address: string;
  /** Set once the outcome of the request is counted: it is not counted again. */
  isCounted?: boolean;
}

/** Counts and logs how requests ended, each once. */
export interface Outcomes {
  /** Counts a success. */
  succeeded(entry: Entry, request: Pick<LoggedRequest, "isCounted">): void;
  /** Counts a refusal and writes its log line: the reason, the request, and the private cause. */
  refused(refusal: Refusal, entry: Entry, asked: LoggedRequest): void;
}

const pathCharactersMax = 200;

export function createOutcomes({ log, metrics }: { log: Log; metrics: Metrics }): Outcomes {
  return {
    succeeded(entry, request) {
      if (request.isCounted) return;
      request.isCounted = true;
      metrics.requestEnded(entry, "OK");
    },
    refused(refusal, entry, asked) {
      if (asked.isCounted) return;
      asked.isCounted = true;
      const { requestId, method, target, address } = asked;
      const { reason, message, cause } = refusal;
      metrics.requestEnded(entry, reason);
      if (reason === "RATE_LIMIT_EXCEEDED") metrics.limitRefused();
      // Only the path is logged, because a query may hold secrets.
      const request = `${method} ${pathOf(target).slice(0, pathCharactersMax)}`.trimEnd();
      log[rowOf(reason).log](
        { entry, reason, requestId, request, address, ...(cause !== undefined && { cause }) },
        message,
      );
    },
  };
}
