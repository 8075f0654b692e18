/** Refusals as Connect's errors: our own, and those of the library, which get our words. */

import type { DescMessage } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { changedNumberIn } from "#transcode/changed-number.ts";
import { fieldOfMany, isJsonObject } from "#transcode/json-form.ts";
import { parseJson } from "#transcode/json-text.ts";
import type { Check } from "#transcode/problem.ts";
import { bounds } from "../../bounds.ts";
import { pairsOf } from "../../http/headers.ts";
import { reasonHeaders } from "../../http/refusal-response.ts";
import { rpcDetails } from "../../refusal/error-details.ts";
import { rowOf } from "../../refusal/reasons.ts";
import { cutText, fail, isUnsafeToRepeat, Refusal, repeatHeaders } from "../../refusal/refusal.ts";
import type { RpcParts } from "../rpc-parts.ts";
import { callStateOf, entryOf } from "./call-state.ts";

/** Errors that are already counted: refusals, and ConnectErrors that a method threw. */
const settled = new WeakSet<ConnectError>();

/**
 * Returns a refusal as Connect sends it: canonical code, public message and details. Connect never
 * sends the cause, which is for the log.
 */
export function connectErrorFrom(refusal: Refusal): ConnectError {
  const { code } = rowOf(refusal.reason);
  const metadata = Object.fromEntries(repeatHeaders(refusal));
  return settle(new ConnectError(refusal.message, code, metadata, rpcDetails(refusal), refusal.cause));
}

/**
 * Counts and logs the refusal of a call. Over Connect, which has HTTP statuses, it sets the headers
 * of the reason, and marks the response if its status alone would mislead. Over gRPC it puts the
 * request's id where a refusal without a message has all that it has: into the trailers.
 */
export function countRefusal(
  context: HandlerContext,
  { outcomes }: Pick<RpcParts, "outcomes">,
  refusal: Refusal,
): void {
  const { request } = callStateOf(context);
  outcomes.refused(refusal, entryOf(context), request);
  if (context.protocolName !== "connect") {
    context.responseTrailer.set("x-request-id", request.requestId);
    // Clients of gRPC-Web join both places, and would see it twice. A head that is sent keeps it.
    context.responseHeader.delete("x-request-id");
    return;
  }
  for (const [name, value] of pairsOf(reasonHeaders(refusal))) context.responseHeader.set(name, value);
  // RESOURCE_EXHAUSTED is HTTP 429 over Connect, and clients repeat a 429, even if no wait helps.
  const isLasting =
    rowOf(refusal.reason).code === Code.ResourceExhausted && refusal.retryAfterMs === undefined;
  if (isLasting && !isUnsafeToRepeat(refusal)) context.responseHeader.set("x-should-retry", "false");
}

/** Marks the error as counted: it is sent unchanged. */
export function settle(error: ConnectError): ConnectError {
  settled.add(error);
  return error;
}

export function isSettled(error: ConnectError): boolean {
  return settled.has(error);
}

/**
 * Gives the errors that Connect creates itself the words and the code of our refusals, and counts
 * them: a message over the bound, a message that can't be read, an unknown compression. Connect has
 * no hook for them, but it aborts the call with the error before it sends it, and the error's code
 * and details are plain properties.
 */
export function explainFraming(
  context: HandlerContext,
  parts: Pick<RpcParts, "messageBytesMax" | "outcomes">,
): void {
  const explain = () => {
    const error: unknown = context.signal.reason;
    const refusal = framingRefusal(context, parts, error);
    if (!refusal) return;
    countRefusal(context, parts, refusal);
    // Connect sends any other error as INTERNAL, without its message.
    if (!(error instanceof ConnectError)) return;
    error.details.push(...rpcDetails(refusal));
    // Connect sends unreadable bytes as INTERNAL, but the fault is the caller's, as with JSON.
    Object.assign(error, { code: rowOf(refusal.reason).code, rawMessage: refusal.message });
  };
  context.signal.addEventListener("abort", explain, { once: true });
}

/**
 * Returns the refusal for an error that Connect created; undefined for refusals and for the end of
 * a call, which are counted elsewhere.
 */
export function framingRefusal(
  { protocolName, method }: HandlerContext,
  { messageBytesMax }: Pick<RpcParts, "messageBytesMax">,
  error: unknown,
): Refusal | undefined {
  if (error instanceof Refusal || !(error instanceof Error) || error.name === "AbortError") return undefined;
  if (!(error instanceof ConnectError)) return fail("INTERNAL", { cause: error });
  if (isSettled(error)) return undefined;
  const { code, rawMessage } = error;
  switch (code) {
    case Code.DeadlineExceeded:
      return undefined;
    case Code.ResourceExhausted:
      return fail("REQUEST_TOO_LARGE", { metadata: { bytes_max: String(messageBytesMax) } });
    case Code.InvalidArgument:
      if (error.cause instanceof Refusal) return error.cause;
      // Without a cause it is Connect's own, of a part of the protocol that is missing.
      return fail("INVALID_ARGUMENT", { problem: error.cause ? unreadable(method.input) : rawMessage });
    case Code.Unimplemented:
      return fail("UNIMPLEMENTED", { problem: rawMessage });
    default:
      // Only their messages distinguish these two errors from a fault of the server.
      if (rawMessage.startsWith("received compressed envelope")) return noEncoding(protocolName);
      if (rawMessage === "decompression failed")
        return fail("INVALID_ARGUMENT", { problem: "The message can't be decompressed." });
      if (rawMessage.startsWith("parse binary: "))
        return fail("INVALID_ARGUMENT", { problem: unreadable(method.input) });
      return fail("INTERNAL", { cause: error });
  }
}

/** Each protocol has a header of its own for the compression of a stream's messages. */
function noEncoding(protocolName: string): Refusal {
  const refusal = fail("MISSING_GRPC_ENCODING");
  if (protocolName !== "connect") return refusal;
  const problem = refusal.message.replace("grpc-encoding", "connect-content-encoding");
  return fail("MISSING_GRPC_ENCODING", { problem });
}

/**
 * The text of JSON that fits its message. Else it throws an error that says why in the words of
 * REST, which `framingRefusal` counts.
 */
export function checkedJson(bytes: Uint8Array, message: DescMessage, check: Check): string {
  const read = parseJson(bytes, fieldOfMany(message));
  if (read.kind === "problem") {
    const reason = read.problem === "invalid_json" ? "INVALID_JSON" : "INVALID_ARGUMENT";
    const { param } = read;
    const problem = param === null ? read.words : `${param} ${read.words}`;
    throw unreadableJson(fail(reason, { problem, ...(param !== null && { param }) }));
  }
  const { json } = read;
  const fault = isJsonObject(json)
    ? (check(json, 0) ?? changedNumberIn(message, read))
    : { path: "", words: "must be a JSON object" };
  // Connect's own reader decides about a number whose digits `JSON.parse` does not keep.
  if (fault === undefined || fault.inexact) return read.text;
  const { path, words } = fault;
  if (path === "") throw unreadableJson(fail("INVALID_ARGUMENT", { problem: `The body ${words}.` }));
  const problem = `${cutText(path, bounds.refusalNameBytesMax)} ${words}.`;
  throw unreadableJson(fail("INVALID_ARGUMENT", { param: path, problem }));
}

function unreadableJson(refusal: Refusal): ConnectError {
  return new ConnectError(refusal.message, Code.InvalidArgument, undefined, undefined, refusal);
}

/** What is said of a message that is not in its form. */
function unreadable({ typeName }: DescMessage): string {
  return `The message can't be read as ${typeName}.`;
}
