import { fail, type Refusal } from "../error.ts";
import type { BodyOutcome } from "./http.ts";

/** The body's bytes; throws what a request is refused for whose body is not there whole. */
export function wholeBody(body: BodyOutcome, bytesMax: number): Uint8Array {
  if (body.kind === "whole") return body.bytes;
  if (body.kind === "gone") throw body.reason ? beforeWork(body.reason) : fail("CANCELLED");
  throw fail("REQUEST_TOO_LARGE", { metadata: { bytes_max: String(bytesMax) } });
}

/** The same refusal, of a request whose work can't have begun, and which therefore may be sent again. */
export function beforeWork({ reason, retryAfterMs }: Refusal): Refusal {
  return fail(reason, retryAfterMs === undefined ? {} : { retryAfterMs });
}
