import { RpcError } from "./rpc-error.ts";

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
  const error = thrown instanceof RpcError ? thrown : new RpcError({ code: codeWithoutAnswer(thrown) });
  const { code, reason, metadata, requestId } = error;
  const signedOut = code === "unauthenticated";
  const words = reason === null ? "Keyrun can’t be reached." : error.message;
  return {
    reason,
    code: reason?.toLowerCase() ?? code,
    requestId,
    // Keyrun's own words are for programs: "This method needs a credential, and none was sent."
    message: signedOut ? "You were signed out. Sign in in another tab, then try again." : words,
    metadata,
    signedOut,
    mayHaveHappened: reason === null ? !signedOut : undecided.has(reason),
  };
}

/** True when the same read may succeed in a moment: no answer came, or Keyrun was unavailable. */
export function isTransient(thrown: unknown): boolean {
  const { reason, signedOut } = failureOf(thrown);
  return (reason === null && !signedOut) || reason === "UNAVAILABLE";
}

const undecided = new Set(["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL"]);

function codeWithoutAnswer(thrown: unknown): string {
  const name = thrown instanceof Error ? thrown.name : "";
  return name === "TimeoutError" ? "deadline_exceeded" : name === "AbortError" ? "canceled" : "unknown";
}
