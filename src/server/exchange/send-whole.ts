import type { WholeResponse } from "../../http/handler.ts";
import { type Incoming, send, sendUnended } from "../node-http.ts";

/**
 * Writes the whole answer at once, and counts it as unread. With `ended` false it is not ended for
 * Node: call `res.end()` later.
 */
export function sendWhole({ res, unread }: Incoming, response: WholeResponse, { ended = true } = {}): void {
  if (ended) send(res, response);
  else sendUnended(res, response);
  // A head alone passes a closed window of HTTP/2, so it does not wait.
  if (response.body.length > 0) unread.add(response.body.length);
}

/** From this length on, a text is encoded before it is passed to Node. */
const longTextCharacters = 16 * 1024;

/**
 * Returns the response with bytes instead of a long text, so that it is known how much memory it
 * takes. Node would encode the text itself, into memory of the same size.
 */
export function withBytes(response: WholeResponse): WholeResponse {
  const { body } = response;
  if (typeof body !== "string" || body.length < longTextCharacters) return response;
  return { ...response, body: Buffer.from(body) };
}

/** Returns the response without its body. */
export function withoutBody({ status, headers, trailers }: WholeResponse): WholeResponse {
  return { status, headers, body: "", ...(trailers && { trailers }) };
}
