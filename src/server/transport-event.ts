/**
 * An event on a connection that belongs to no request, for the log. It never holds bytes of the
 * caller: a parser's error carries them, and with them perhaps an API key.
 */
export type TransportEvent =
  | { readonly kind: "connection_refused"; readonly by: "total" | "address"; readonly address: string }
  /**
   * A connection ended before its request could be answered: a reset, a failed TLS handshake.
   * `code` is Node's error code.
   */
  | { readonly kind: "connection_failed"; readonly code: string; readonly address: string }
  | { readonly kind: "session_failed"; readonly code: string }
  /**
   * A connection was closed because its caller did not read its answers, or pipelined too many
   * requests. `bytes` is what it had not read.
   */
  | {
      readonly kind: "connection_closed";
      readonly by: "unread_answers" | "pipelined_requests";
      readonly bytes: number;
      readonly address: string;
    }
  /** An idle connection was closed because all connections together took too much memory. */
  | { readonly kind: "idle_connection_closed"; readonly address: string }
  /**
   * Reported once: `X-Forwarded-For` arrives although no proxy is trusted, so all callers share one
   * address.
   */
  | { readonly kind: "untrusted_forwarded_for" }
  /** The listening socket itself failed. */
  | { readonly kind: "listener_failed"; readonly cause: unknown };

/** Reports an event. Synchronous. Never throws. */
export type Report = (event: TransportEvent) => void;

/** Returns the stable code of Node's error, without its message or its bytes. */
export function errorCode(error: unknown): string {
  const named = error instanceof Error && "code" in error && typeof error.code === "string";
  return named ? String(error.code) : "UNKNOWN";
}
