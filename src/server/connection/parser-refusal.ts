import { STATUS_CODES } from "node:http";
import { refusalResponse } from "../../http/refusal-response.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";

/**
 * Returns the refusal for an error of Node about an HTTP/1.1 connection. Undefined if the error is
 * not the fault of a request (a reset, a failed handshake): then no caller would read an answer.
 */
export function refusalOfParserError(code: string): Refusal | undefined {
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
export function refusalBytes(
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
