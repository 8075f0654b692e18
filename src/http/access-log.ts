/** The access log: a line of JSON for each request. */

import type { Clock } from "../base/clock.ts";
import type { Entry } from "../metrics/metrics.ts";
import { rowOf } from "../refusal/reasons.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { httpMethod, type LoggedRequest } from "./outcomes.ts";
import { isProbe, type NameRoute, type RequestNotes, type RequestObserver } from "./request-notes.ts";

export type WriteLine = (line: string) => void;

export interface AccessLog extends RequestObserver {
  /** Writes the line of bytes that were refused before they became a request. */
  unread(refusal: Refusal, entry: Entry, asked: LoggedRequest): void;
}

/**
 * One line of JSON for each request, at its end; that of a stream at the end of the stream. Probes
 * get none. No line has a text of the request, but its id where that can hold no key: the path is
 * written as its route.
 */
export function createAccessLog({
  clock,
  nameRoute,
  write,
  redact,
}: {
  readonly clock: Clock;
  readonly nameRoute: NameRoute;
  /** Called with each line and its newline. */
  readonly write: WriteLine;
  /** Cuts secrets from a finished line, as the log does. */
  readonly redact: (line: string) => string;
}): AccessLog {
  const time = () => new Date(clock.unixMs()).toISOString();
  const log = (facts: object) =>
    write(`${redact(JSON.stringify({ level: "info", time: time(), ...facts, msg: "request" }))}\n`);
  return {
    ended(notes, status) {
      const route = nameRoute(notes.head.target);
      if (isProbe(route)) return;
      log(factsOf(notes, { route, status, seconds: (clock.monotonicMs() - notes.begunMs) / 1_000 }));
    },
    unread({ reason }, entry, { requestId, address }) {
      log({ entry, status: rowOf(reason).httpStatus, outcome: reason, requestId, address });
    },
  };
}

/** What nginx writes where the caller left before it was answered. */
const noAnswer = 499;

/** Members that are undefined are left out of the line. */
function factsOf(
  { head, entry, request, keyId, teamId, appId, outcome, bytes, traceId }: RequestNotes,
  { route, status, seconds }: { route: string | undefined; status: number | undefined; seconds: number },
): object {
  const refusal = typeof outcome === "object" ? outcome : undefined;
  const code = refusal === undefined ? 0 : rowOf(refusal.reason).code;
  const grpcCode = entry === "grpc" && outcome !== undefined ? code : undefined;
  return {
    entry,
    method: httpMethod(head.method),
    route: route ?? "(no route)",
    status: status ?? noAnswer,
    grpcCode,
    outcome: refusal?.reason ?? outcome,
    teamId,
    keyId,
    appId: appId ?? refusal?.appId,
    seconds: Math.round(seconds * 1e6) / 1e6,
    bytes,
    requestId: request?.requestId,
    address: request?.address ?? head.peer,
    trace_id: traceId,
  };
}
