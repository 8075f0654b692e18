/** Refusals as Connect's errors: our own, and those of the library, which get our words. */

import type { DescField, DescMessage, DescOneof } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { nameTwice } from "#transcode/json-text.ts";
import { createChecks } from "#transcode/message-check.ts";
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
      return jsonRefusal(error, method.input);
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
 * Says in the words of REST why JSON does not fit a message, and names the wrong field. Connect
 * reads it with protobuf-es, whose messages quote values and name types of the protos.
 */
function jsonRefusal({ cause, rawMessage }: ConnectError, input: DescMessage): Refusal {
  // An error of ours, such as that of too many values.
  if (cause === undefined) return fail("INVALID_ARGUMENT", { problem: rawMessage });
  if (isNoJson(cause)) return fail("INVALID_JSON");
  if (duplicateName.test(rawMessage)) return fail("INVALID_JSON", { problem: nameTwice });
  const [, unknown] = unknownField.exec(rawMessage) ?? [];
  // REST writes an empty name in this way too.
  if (unknown !== undefined) return atFault(unknown || '""', notHere);
  const field = fieldAtFault(cause);
  if (field?.kind === "field") return atFault(field.name, wordsFor(field, rawMessage));
  if (field) {
    const names = field.fields.map(({ name }) => name).join(", ");
    return fail("INVALID_ARGUMENT", { problem: `Send at most one of: ${names}.` });
  }
  const isWhole = rawMessage.startsWith(`cannot decode message ${input.typeName} from JSON: `);
  const problem = isWhole ? "The body must be a JSON object." : unreadable(input);
  return fail("INVALID_ARGUMENT", { problem });
}

/** What is said of a message that is not in its form. */
function unreadable({ typeName }: DescMessage): string {
  return `The message can't be read as ${typeName}.`;
}

const notHere = "is no field here. Remove it, or check its spelling";

function atFault(param: string, words: string): Refusal {
  const problem = `${cutText(param, bounds.refusalNameBytesMax)} ${words}.`;
  return fail("INVALID_ARGUMENT", { param, problem });
}

const checks = createChecks(undefined);

/** What REST says of a value of the wrong type: an array is one for all but lists. */
function wordsFor(field: DescField, message: string): string {
  if (message.endsWith(": set multiple times")) return "is there twice. Send it once";
  if (field.fieldKind === "list" && !message.includes(": list item ")) return "must be an array";
  if (field.fieldKind === "map") return "must be an object with values of its type";
  const words = checks.ofItem(field)([], 0)?.words ?? "can't be read";
  return field.fieldKind === "list" ? `has an item that ${words}` : words;
}

/** Whether the bytes are not UTF-8 or not JSON: protobuf-es keeps the parser's error as a cause. */
function isNoJson(cause: unknown): boolean {
  if (!(cause instanceof Error)) return false;
  return (
    cause.cause instanceof SyntaxError ||
    ("code" in cause && cause.code === "ERR_ENCODING_INVALID_ENCODED_DATA")
  );
}

/** The field, or the choice of fields, that protobuf-es keeps with its error. */
function fieldAtFault(cause: unknown): DescField | DescOneof | undefined {
  const inner = cause instanceof Error ? cause.cause : undefined;
  if (!(inner instanceof Error) || !("field" in inner) || typeof inner.field !== "function") return undefined;
  return inner.field();
}

/** Match the messages in which protobuf-es says what it can't read. */
const duplicateName = /^cannot decode message \S+ from JSON: duplicate object key "/;
const unknownField = /^cannot decode message \S+ from JSON: key "([\s\S]*)" is unknown$/;
