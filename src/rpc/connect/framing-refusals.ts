import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { rpcDetails } from "../../refusal/error-details.ts";
import { rowOf } from "../../refusal/reasons.ts";
import { fail, Refusal } from "../../refusal/refusal.ts";
import type { RpcParts } from "../rpc-parts.ts";
import { countRefusal, isSettled } from "./connect-refusal.ts";
import { jsonRefusal, unreadable } from "./json-refusal.ts";

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
