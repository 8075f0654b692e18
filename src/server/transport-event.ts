import type { Reason } from "../reasons.ts";

/**
 * What happens on connections that no request can tell of, for the log and the metrics. It never holds what the
 * caller sent: a parser's error carries the raw bytes, and with them an API key.
 */
export type TransportEvent =
  | { readonly kind: "connection_refused"; readonly by: "total" | "address"; readonly address: string }
  /**
   * The parser or the check of the head refused a request, it did not arrive in time, or TLS failed. `code` is node's,
   * or the reason; without a reason nobody was answered.
   */
  | {
      readonly kind: "request_refused";
      readonly code: string;
      readonly reason?: Reason;
      readonly address: string;
    }
  | { readonly kind: "session_failed"; readonly code: string }
  /** Told once: `X-Forwarded-For` arrives while no proxy is trusted, so all callers share one address. */
  | { readonly kind: "untrusted_forwarded_for" }
  /** The listening socket itself failed. */
  | { readonly kind: "listener_failed"; readonly cause: unknown }
  /** A door threw, which it promised not to. */
  | { readonly kind: "handler_failed"; readonly requestId: string; readonly cause: unknown };

/** Takes an event, at once and without throwing. */
export type Report = (event: TransportEvent) => void;

/** The stable name of an error of node's, without its message or its bytes. */
export function errorCode(error: unknown): string {
  const named = error instanceof Error && "code" in error && typeof error.code === "string";
  return named ? String(error.code) : "UNKNOWN";
}
