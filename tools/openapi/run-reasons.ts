import type { Reason } from "#src/refusal/reasons.ts";

/**
 * The reasons for which a run over REST can be refused. A test requires that every reason is in
 * this list or in the test's own list of others.
 */
export const runReasons = [
  "MISSING_API_KEY",
  "MALFORMED_AUTHORIZATION",
  "INVALID_API_KEY",
  "REVOKED_API_KEY",
  "EXPIRED_API_KEY",
  "APP_NOT_ALLOWED",
  "APP_NOT_FOUND",
  "NOT_FOUND",
  "METHOD_NOT_ALLOWED",
  "INVALID_JSON",
  "INVALID_ARGUMENT",
  "MALFORMED_REQUEST",
  "REQUEST_TIMEOUT",
  "HEADERS_TOO_LARGE",
  "REQUEST_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "RATE_LIMIT_EXCEEDED",
  "IDEMPOTENCY_KEY_REUSED",
  "IDEMPOTENCY_KEY_IN_USE",
  "IDEMPOTENCY_ANSWER_GONE",
  "RUN_CANCELLED",
  "APP_FAILED",
  "RUN_INTERRUPTED",
  "APP_REFUSED",
  "APP_TIMEOUT",
  "APP_BUSY",
  "APP_UNREACHABLE",
  "UNAVAILABLE",
  "OVERLOADED",
  "INTERNAL",
] as const satisfies readonly Reason[];
