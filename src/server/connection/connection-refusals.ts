/** Answers over HTTP/1.1 for what Node gives us without a response: bytes that are no request. */

import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "../../base/clock.ts";
import type { LoggedRequest, Outcomes } from "../../http/outcomes.ts";
import { refusalResponse } from "../../http/refusal-response.ts";
import { connectRefused } from "../../http/request-head.ts";
import type { Entry } from "../../metrics/metrics.ts";
import { fail, type Refusal, unavailable } from "../../refusal/refusal.ts";
import { isHttp2Response, type NodeResponse, noteParserRefusal, readsAnsweredRequest } from "../node-http.ts";
import { errorCode, type Report } from "../transport.ts";

export interface ConnectionRefusalsOptions {
  /** The answers that are not finished, over HTTP/1.1 and HTTP/2. */
  readonly running: Iterable<NodeResponse>;
  readonly clock: Clock;
  newRequestId(): string;
  readonly report: Report;
  readonly outcomes: Outcomes;
  /** The entry for refusals of bytes that never became a request. */
  readonly entry: Entry;
}

/**
 * Refuses what Node gives us without a response over HTTP/1.1, in the usual form. The connection
 * closes after each of these refusals.
 */
export function createConnectionRefusals(options: ConnectionRefusalsOptions) {
  const { running, outcomes, entry, newRequestId, clock, report } = options;
  const ending = new WeakSet<Duplex>();

  function refuse(socket: Duplex, refusal: Refusal, asked: Pick<LoggedRequest, "method" | "target">): void {
    const requestId = newRequestId();
    outcomes.refused(refusal, entry, { ...asked, requestId, address: addressOf(socket) });
    // Instead of the answer that the caller waits for, it reads this refusal.
    const mayHaveRun = answerOn(socket, running)?.req.complete === true;
    const bytes = refusalBytes(refusal, { requestId, unixMs: clock.unixMs(), mayHaveRun });
    socket.end(bytes, () => socket.destroy());
  }

  /** Once an answer has begun, the caller would read more bytes as a part of it. */
  const canAnswer = (socket: Duplex) => socket.writable && answerOn(socket, running)?.headersSent !== true;

  return {
    /** Refuses what the parser could not read or did not get in time. */
    parserError(error: unknown, socket: Duplex): void {
      if (readsAnsweredRequest(socket)) return void socket.end(() => socket.destroy());
      const code = errorCode(error);
      const refusal = refusalOfParserError(code);
      if (refusal === undefined || !canAnswer(socket)) {
        report({ kind: "connection_failed", code, address: addressOf(socket) });
        return void socket.destroy();
      }
      const unread = answersOn(socket, running).find((res) => !res.req.complete);
      if (unread !== undefined) noteParserRefusal(unread);
      refuse(socket, refusal, { method: code, target: "" });
    },
    connect({ method = "" }: IncomingMessage, socket: Duplex): void {
      // Node no longer closes the answers that wait behind the first.
      socket.once("close", () => answersOn(socket, running).forEach((res) => void res.destroy()));
      if (!canAnswer(socket)) return void socket.destroy();
      refuse(socket, connectRefused(), { method, target: "/" });
    },
    /**
     * Refuses a request past the last one of its connection, after the answers before it. Call it
     * before Node answers the request itself.
     */
    overdue({ method = "", url = "/" }: IncomingMessage, socket: Duplex): void {
      if (ending.has(socket)) return;
      ending.add(socket);
      const refusal = unavailable({ problem: overdueWords, cause: new Error("its connection was used up") });
      const end = () => refuse(socket, refusal, { method, target: url });
      const before = answersOn(socket, running);
      let left = before.length;
      if (left === 0) return void end();
      // Before Node's own listener, which would send its answer to this request.
      const onFinish = () => {
        left -= 1;
        if (left === 0) end();
      };
      for (const res of before) res.prependOnceListener("finish", onFinish);
    },
  };
}

const overdueWords = "This connection has served its last request. Send this one again on a new connection.";

/**
 * Returns the answer that the connection is waiting for. A search is fast enough, because it is
 * needed only after a fault or a timeout.
 */
export function answerOn(socket: Duplex, running: Iterable<NodeResponse>): NodeResponse | undefined {
  for (const res of running) if (!isHttp2Response(res) && res.socket === socket) return res;
  return undefined;
}

/** Returns all answers that are not finished on the connection, in no order. */
function answersOn(socket: Duplex, running: Iterable<NodeResponse>) {
  return [...running].filter((res) => !isHttp2Response(res)).filter((res) => res.req.socket === socket);
}

function addressOf(socket: Duplex): string {
  return "remoteAddress" in socket ? String(socket.remoteAddress) : "";
}

/**
 * Returns the refusal for an error of Node about an HTTP/1.1 connection. Undefined if the error is
 * not the fault of a request (a reset, a failed handshake): then no caller would read an answer.
 */
function refusalOfParserError(code: string): Refusal | undefined {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return fail("REQUEST_TIMEOUT");
  if (code === "HPE_HEADER_OVERFLOW") return fail("HEADERS_TOO_LARGE");
  return code.startsWith("HPE_") ? fail("MALFORMED_REQUEST") : undefined;
}

/**
 * Returns the bytes that answer a request for which there is no response of Node. The connection
 * closes after them. A request that can't be read is not trusted, so its request id and its Accept
 * header are ignored. `mayHaveRun` is true if the caller reads the refusal in place of the answer
 * to a request that an app may be running.
 */
function refusalBytes(
  refusal: Refusal,
  { requestId, unixMs, mayHaveRun }: { requestId: string; unixMs: number; mayHaveRun: boolean },
): string {
  const { status, headers, body } = refusalResponse(refusal, { requestId });
  if (mayHaveRun) headers.push("X-Should-Retry", "false");
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`];
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  lines.push(`Date: ${new Date(unixMs).toUTCString()}`, `Content-Length: ${Buffer.byteLength(body)}`);
  return `${lines.join("\r\n")}\r\nConnection: close\r\n\r\n${body}`;
}
