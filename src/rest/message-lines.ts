import { refusalJson } from "../http/refusal-response.ts";
import type { Refusal } from "../refusal/refusal.ts";
import type { EncodedResponse } from "../transcode/encode.ts";

/** The media type of a stream: one JSON value a line, and each line ends in "\n". */
export const linesType = "application/x-ndjson";

/** Returns the line of one message. */
export function messageLine({ body }: EncodedResponse): Uint8Array {
  // A rule that streams raw bytes is refused at start-up.
  if (typeof body !== "string") throw new Error("a message of a stream has no JSON");
  return Buffer.from(`${body}\n`);
}

/** Returns the last line of a stream that ends in a refusal: `{"error":{…}}`. */
export function refusalLine(refusal: Refusal, requestId: string): Uint8Array {
  return Buffer.from(`${refusalJson(refusal, requestId)}\n`);
}
