/** The details of a refusal that gRPC, Connect and REST have in common. */

import {
  create,
  type DescMessage,
  type JsonObject,
  type MessageInitShape,
  type MessageShape,
  toJson,
} from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  QuotaFailureSchema,
  RetryInfoSchema,
} from "#gen/google/rpc/error_details_pb.ts";
import { rowOf } from "./reasons.ts";
import type { Refusal } from "./refusal.ts";

/** One detail of a status: a message and its descriptor. */
export interface ErrorDetail<Desc extends DescMessage = DescMessage> {
  readonly desc: Desc;
  readonly value: MessageShape<Desc>;
}

/**
 * Returns the facts of a refusal as AIP-193 defines them: exactly one ErrorInfo, and where they
 * apply BadRequest (which field), QuotaFailure (which limit) and RetryInfo (how long to wait).
 */
function errorDetails(refusal: Refusal): ErrorDetail[] {
  const { reason, param, metadata, message, retryAfterMs } = refusal;
  const details: ErrorDetail[] = [
    detail(ErrorInfoSchema, { reason, domain: "keyrun", metadata: { ...metadata } }),
  ];
  if (param !== null && rowOf(reason).type === "invalid_request_error") {
    details.push(
      detail(BadRequestSchema, { fieldViolations: [{ field: param, description: message, reason }] }),
    );
  }
  if (rowOf(reason).type === "rate_limit_error") {
    const { subject = "team" } = metadata;
    details.push(detail(QuotaFailureSchema, { violations: [{ subject, description: message }] }));
  }
  if (retryAfterMs !== undefined) {
    details.push(detail(RetryInfoSchema, { retryDelay: durationFromMs(Math.ceil(retryAfterMs)) }));
  }
  return details;
}

/** The details that a gRPC or Connect status has: none where a framework of RPCs has the error. */
export function rpcDetails(refusal: Refusal): ErrorDetail[] {
  return rowOf(refusal.reason).withoutRpcDetails ? [] : errorDetails(refusal);
}

/** The same details as JSON objects with `@type`, for HTTP bodies (the ProtoJSON form of `Any`). */
export function errorDetailsJson(refusal: Refusal): JsonObject[] {
  return errorDetails(refusal).map(({ desc, value }) => {
    const fields = toJson(desc, value);
    const type = { "@type": `type.googleapis.com/${desc.typeName}` };
    return typeof fields === "object" && fields !== null && !Array.isArray(fields)
      ? { ...type, ...fields }
      : type;
  });
}

function detail<Desc extends DescMessage>(desc: Desc, init: MessageInitShape<Desc>): ErrorDetail<Desc> {
  return { desc, value: create(desc, init) };
}
