/**
 * A refusal as a response: JSON with an HTTP status, the same for Connect's clients, the problem of
 * RFC 9457, or a gRPC status.
 */

import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { errorDetailsJson, rpcDetails } from "../refusal/error-details.ts";
import { type Reason, rowOf } from "../refusal/reasons.ts";
import { filled, type Refusal, repeatHeaders } from "../refusal/refusal.ts";
import type { HttpRequest, RefusalForm, WholeResponse } from "./handler.ts";
import { preferredType } from "./headers.ts";

/** What the response depends on besides the refusal. */
export interface RefusalContext {
  readonly requestId: string;
  /** The caller's `Accept` header, which may ask for `application/problem+json`. */
  readonly accept?: string | undefined;
  /** Rate-limit headers: names and values, alternating. */
  readonly rateHeaders?: readonly string[];
  /**
   * Adds the error in Connect's own form, for its clients, and a charset to the media type: plain
   * `application/json` would say that Connect itself has answered.
   */
  readonly isForRpc?: boolean;
}

/** Returns the response to a refused request, in the form of its protocol. */
export function refusalAnswer(
  refusal: Refusal,
  request: Pick<HttpRequest, "requestId" | "header">,
  { form, rateHeaders = [] }: { form: RefusalForm; rateHeaders?: readonly string[] },
): WholeResponse {
  const { requestId } = request;
  if (form !== "grpc") {
    const isForRpc = form === "json_for_rpc";
    return refusalResponse(refusal, { requestId, accept: request.header("accept"), rateHeaders, isForRpc });
  }
  // Trailers-Only (gRPC over HTTP/2, "Responses"): the head holds the status, and nothing follows.
  const headers = ["content-type", grpcTypeOf(request), "x-request-id", requestId];
  return { status: 200, headers: [...headers, ...rateHeaders, ...statusOf(refusal)], body: "" };
}

/** The request's own type without what is no known part of it: that may be as long as a header. */
function grpcTypeOf(request: Pick<HttpRequest, "header">): string {
  const sent = request.header("content-type")?.toLowerCase() ?? "";
  return /^application\/grpc(-web(-text)?)?(\+(proto|json)(?!\w))?/.exec(sent)?.[0] ?? "application/grpc";
}

/**
 * Returns a refusal as an HTTP response. The body has one form for every status, which existing API
 * clients know, or the form of RFC 9457 if the caller asks for it.
 */
export function refusalResponse(refusal: Refusal, context: RefusalContext): WholeResponse {
  const { requestId, rateHeaders = [] } = context;
  const type = preferredType(context.accept, ["application/json", "application/problem+json"]);
  const problem = type === "application/problem+json";
  const own = context.isForRpc ? connectBody(refusal) : {};
  const body = problem ? problemBody(refusal, requestId) : { ...own, ...errorBody(refusal, requestId) };
  const json = context.isForRpc ? "application/json; charset=utf-8" : "application/json";
  const headers = ["Content-Type", problem ? type : json];
  headers.push("X-Request-Id", requestId, ...rateHeaders);
  headers.push(...reasonHeaders(refusal), ...repeatHeaders(refusal).flat());
  return { status: rowOf(refusal.reason).httpStatus, headers, body: `${JSON.stringify(body)}\n` };
}

/** Returns the JSON that every status has in its body, also for a refusal that ends a stream. */
export function refusalJson(refusal: Refusal, requestId: string): string {
  return JSON.stringify(errorBody(refusal, requestId));
}

/** The canonical name of the code, such as `INVALID_ARGUMENT`. */
export function codeName(code: Code): string {
  if (code === Code.Canceled) return "CANCELLED";
  return String(Code[code])
    .replace(/(?<=[a-z])(?=[A-Z])/g, "_")
    .toUpperCase();
}

/** The code in HTTP bodies, such as `invalid_api_key`. */
export function publicCode({ reason }: Refusal): string {
  return reason.toLowerCase();
}

/** The headers of the reason, filled from the metadata: names and values, alternating. */
export function reasonHeaders({ reason, metadata }: Refusal): string[] {
  return Object.entries(rowOf(reason).headers ?? {}).flatMap(([name, text]) => {
    const fact = /^\{(\w+)\}$/.exec(text)?.[1];
    return fact !== undefined && metadata[fact] === undefined ? [] : [name, filled(text, metadata)];
  });
}

function errorBody(refusal: Refusal, requestId: string) {
  const { type, code } = rowOf(refusal.reason);
  return {
    error: {
      type,
      code: publicCode(refusal),
      message: refusal.message,
      param: refusal.param,
      status: codeName(code),
      requestId,
      details: errorDetailsJson(refusal),
    },
  };
}

/** The error of Connect's unary protocol: https://connectrpc.com/docs/protocol/#error-end-stream */
function connectBody(refusal: Refusal) {
  const ofStatus = codeOfStatus[refusal.reason];
  const code = ofStatus ?? rowOf(refusal.reason).code;
  const details = ofStatus === undefined ? rpcDetails(refusal) : [];
  const error = new ConnectError(refusal.message, code, undefined, details);
  return Object.fromEntries(Object.entries(errorToJson(error, undefined) ?? {}));
}

/**
 * What the status alone says to a client of Connect where its request is not one of Connect's. Like
 * any framework's own error, it has no details.
 */
const codeOfStatus: Partial<Record<Reason, Code>> = {
  NOT_FOUND: Code.Unimplemented,
  METHOD_NOT_ALLOWED: Code.Unknown,
  UNSUPPORTED_MEDIA_TYPE: Code.Unknown,
};

/** RFC 9457. */
function problemBody(refusal: Refusal, requestId: string) {
  const code = publicCode(refusal);
  return {
    type: `urn:keyrun:error:${code}`,
    title: code.replaceAll("_", " "),
    status: rowOf(refusal.reason).httpStatus,
    detail: refusal.message,
    code,
    param: refusal.param,
    requestId,
    details: errorDetailsJson(refusal),
  };
}

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
