import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";

/** Why a call failed, as the screen shows it. */
export interface Failure {
  /** Keyrun's reason, such as REQUEST_ID_USED; null when no answer of Keyrun came. */
  readonly reason: string | null;
  /** What to quote to the operator: the reason or the RPC code, in lower case. */
  readonly code: string;
  /** Null when no answer came. */
  readonly requestId: string | null;
  /** A sentence for people. */
  readonly message: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** True when the session is over. */
  readonly signedOut: boolean;
  /** True when the call may have taken effect: no answer came, or one that leaves it open. */
  readonly mayHaveHappened: boolean;
}

/** The failure that a value thrown by an RPC stands for. */
export function failureOf(thrown: unknown): Failure {
  const error = ConnectError.from(thrown);
  const info = error.findDetails(ErrorInfoSchema).find((one) => one.domain === "keyrun");
  const reason = info?.reason ?? null;
  return {
    reason,
    code: (reason ?? codeName(error.code)).toLowerCase(),
    requestId: error.metadata.get("x-request-id"),
    message: info === undefined ? "Keyrun can’t be reached." : error.rawMessage,
    metadata: info?.metadata ?? {},
    signedOut: error.code === Code.Unauthenticated,
    mayHaveHappened: reason === null ? error.code !== Code.Unauthenticated : undecided.has(reason),
  };
}

/** True when the same read may succeed in a moment: no answer came, or Keyrun was unavailable. */
export function isTransient(thrown: unknown): boolean {
  const { reason, signedOut } = failureOf(thrown);
  return (reason === null && !signedOut) || reason === "UNAVAILABLE";
}

const undecided = new Set(["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL"]);

// The canonical name, as gRPC writes it: PERMISSION_DENIED for "PermissionDenied".
function codeName(code: Code): string {
  return Code[code].replace(/(?<=.)[A-Z]/g, (letter) => `_${letter}`);
}
