import { fail, type Refusal } from "../refusal/refusal.ts";
import type { BodyOutcome } from "./handler.ts";

/** Returns the body's bytes. Throws the refusal of the request if the body is not there in full. */
export function wholeBody(body: BodyOutcome, bytesMax: number): Uint8Array {
  if (body.kind === "whole") return body.bytes;
  if (body.kind === "gone") throw body.reason ? beforeWork(body.reason) : fail("CANCELLED");
  throw fail("REQUEST_TOO_LARGE", { metadata: { bytes_max: String(bytesMax) } });
}

/**
 * The same refusal for a request whose work can't have begun, so that the caller may send it again.
 */
export function beforeWork({ reason, retryAfterMs }: Refusal): Refusal {
  return fail(reason, retryAfterMs === undefined ? {} : { retryAfterMs });
}
