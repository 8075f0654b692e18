import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";

/** A call that did not do what it was asked, in the words of the screen. */
export interface Failure {
  /** Keyrun's reason, as REQUEST_ID_USED; null where the answer was not Keyrun's. */
  readonly reason: string | null;
  /** What to quote to the operator: the reason or the RPC code, in lower case. */
  readonly code: string;
  /** Null where no answer came. */
  readonly requestId: string | null;
  /** A sentence for people. */
  readonly message: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** Whether the session is over. */
  readonly signedOut: boolean;
  /** True where the call may have taken effect all the same: no answer came, or one that does not say. */
  readonly mayHaveHappened: boolean;
}

/** What a thrown value of an RPC means. */
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

/** Whether a read may be tried again by itself: it got no answer, or "not now". */
export function isPassing(thrown: unknown): boolean {
  const { reason, signedOut } = failureOf(thrown);
  return (reason === null && !signedOut) || reason === "UNAVAILABLE";
}

const undecided = new Set(["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL"]);

// Canonical code names, as gRPC writes them: "PermissionDenied" is PERMISSION_DENIED.
function codeName(code: Code): string {
  return Code[code].replace(/(?<=.)[A-Z]/g, (letter) => `_${letter}`);
}
