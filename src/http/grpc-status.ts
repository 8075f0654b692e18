import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { rpcDetails } from "../refusal/error-details.ts";
import { rowOf } from "../refusal/reasons.ts";
import { type Refusal, repeatHeaders } from "../refusal/refusal.ts";

/** The trailers of a successful call: names and values, alternating. */
export const okStatus: readonly string[] = Object.freeze(["grpc-status", "0"]);

/**
 * Returns the trailers of a refused call (names and values, alternating): the code, the public
 * message, and the details, if there are any, as one `google.rpc.Status` (gRPC over HTTP/2,
 * "Responses").
 */
export function statusOf(refusal: Refusal): string[] {
  const { code } = rowOf(refusal.reason);
  const message = refusal.message.toWellFormed();
  const details = rpcDetails(refusal).map(({ desc, value }) => anyPack(desc, value));
  const metadata = ["grpc-status", String(code), "grpc-message", percentEncode(message)];
  if (details.length > 0) {
    const status = toBinary(StatusSchema, create(StatusSchema, { code, message, details }));
    metadata.push("grpc-status-details-bin", Buffer.from(status).toString("base64").replace(/=+$/, ""));
  }
  for (const [name, value] of repeatHeaders(refusal)) metadata.push(name.toLowerCase(), value);
  return metadata;
}

/** Encodes the UTF-8 bytes of everything but printable ASCII, and the percent sign itself. */
function percentEncode(text: string): string {
  return text.replace(/[^ -$&-~]+/g, encodeURIComponent);
}
