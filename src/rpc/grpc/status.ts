import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import type { Refusal } from "../../error.ts";
import { errorDetails } from "../../error-details.ts";
import { reasons } from "../../reasons.ts";

/** The metadata that ends a call with success, as names and values in turn. */
export const okStatus: readonly string[] = Object.freeze(["grpc-status", "0"]);

/**
 * The metadata that ends a call with a refusal, as names and values in turn: code, public words, and the details as
 * one `google.rpc.Status` (gRPC over HTTP/2, "Responses").
 */
export function statusOf(refusal: Refusal): string[] {
  const { code } = reasons[refusal.reason];
  const message = refusal.message.toWellFormed();
  const details = errorDetails(refusal).map(({ desc, value }) => anyPack(desc, value));
  const status = toBinary(StatusSchema, create(StatusSchema, { code, message, details }));
  const metadata = ["grpc-status", String(code), "grpc-message", percentEncode(message)];
  metadata.push("grpc-status-details-bin", Buffer.from(status).toString("base64").replace(/=+$/, ""));
  if (refusal.mayHaveRun) metadata.push("x-should-retry", "false");
  return metadata;
}

/** All but printable ASCII, and the percent sign itself, as the bytes of its UTF-8. */
function percentEncode(text: string): string {
  return text.replace(/[^ -$&-~]+/g, encodeURIComponent);
}
