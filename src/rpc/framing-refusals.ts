import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { fail, type Refusal } from "../error.ts";
import { errorDetails } from "../error-details.ts";
import { reasons } from "../reasons.ts";
import { callFacts } from "./caller.ts";
import type { OnRefusal } from "./on-refusal.ts";

/**
 * Gives the errors that Connect makes by itself the one ErrorInfo that every refusal has: a message over the bound,
 * one that can't be read, a compression that nobody knows. Connect has no hook for them, but it aborts the call with
 * the error before it writes it, and the error's code and details are plain properties.
 */
export function explainFraming(
  context: HandlerContext,
  parts: { readonly messageBytesMax: number; readonly onRefusal: OnRefusal },
): void {
  const explain = () => {
    const error: unknown = context.signal.reason;
    // Ours have their details already, and the ends of a call have none to need.
    if (!(error instanceof ConnectError) || error.details.length > 0) return;
    const refusal = refusalOf(error, parts.messageBytesMax);
    if (!refusal) return;
    error.details.push(...errorDetails(refusal));
    // Bytes that are no message are INTERNAL to Connect; the fault is the caller's, as in JSON.
    Object.assign(error, { code: reasons[refusal.reason].code, rawMessage: refusal.message });
    parts.onRefusal(refusal, callFacts(context));
  };
  context.signal.addEventListener("abort", explain, { once: true });
}

function refusalOf(error: ConnectError, messageBytesMax: number): Refusal | undefined {
  const { code, rawMessage } = error;
  if (code === Code.ResourceExhausted) {
    return fail("REQUEST_TOO_LARGE", { metadata: { bytes_max: String(messageBytesMax) } });
  }
  if (code === Code.Internal && rawMessage.startsWith("received compressed envelope")) {
    return fail("MISSING_GRPC_ENCODING");
  }
  if (code === Code.Internal && rawMessage.startsWith("parse binary: ")) {
    return fail("INVALID_ARGUMENT", { problem: rawMessage });
  }
  if (code === Code.InvalidArgument) return jsonRefusal(error);
  if (code === Code.Unimplemented) return fail("UNIMPLEMENTED", { problem: rawMessage });
  return undefined;
}

/** JSON that can't be read, or what the JSON says can't be the message: then the field is named, as REST names it. */
function jsonRefusal({ cause, rawMessage }: ConnectError): Refusal {
  if (isNoJson(cause)) return fail("INVALID_JSON");
  const [, unknown, field] = fieldAtFault.exec(rawMessage) ?? [];
  // A name of no characters is told as REST tells it.
  const param = unknown === "" ? '""' : (unknown ?? field);
  return fail("INVALID_ARGUMENT", { problem: rawMessage, ...(param !== undefined && { param }) });
}

/** Not UTF-8, or not JSON: protobuf-es keeps the parser's own error as a cause. */
function isNoJson(cause: unknown): boolean {
  if (!(cause instanceof Error)) return false;
  return (
    cause.cause instanceof SyntaxError ||
    ("code" in cause && cause.code === "ERR_ENCODING_INVALID_ENCODED_DATA")
  );
}

/** How protobuf-es names the field that it can't read. */
const fieldAtFault =
  /^cannot decode (?:message \S+ from JSON: key "([\s\S]*)" is unknown$|field \S+\.(\w+) from JSON: )/;
