import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { type Reason, rowOf } from "#src/refusal/reasons.ts";

/** What callers and their libraries act on where a run is refused: part of the API. */
const ofRuns = {
  MISSING_API_KEY: [401, Code.Unauthenticated, "authentication_error"],
  MALFORMED_AUTHORIZATION: [401, Code.Unauthenticated, "authentication_error"],
  INVALID_API_KEY: [401, Code.Unauthenticated, "authentication_error"],
  REVOKED_API_KEY: [401, Code.Unauthenticated, "authentication_error"],
  EXPIRED_API_KEY: [401, Code.Unauthenticated, "authentication_error"],
  APP_NOT_ALLOWED: [403, Code.PermissionDenied, "permission_error"],
  APP_NOT_FOUND: [404, Code.NotFound, "not_found_error"],
  NOT_FOUND: [404, Code.NotFound, "not_found_error"],
  METHOD_NOT_ALLOWED: [405, Code.Unimplemented, "invalid_request_error"],
  INVALID_JSON: [400, Code.InvalidArgument, "invalid_request_error"],
  INVALID_ARGUMENT: [400, Code.InvalidArgument, "invalid_request_error"],
  REQUEST_TOO_LARGE: [413, Code.ResourceExhausted, "invalid_request_error"],
  UNSUPPORTED_MEDIA_TYPE: [415, Code.InvalidArgument, "invalid_request_error"],
  RATE_LIMIT_EXCEEDED: [429, Code.ResourceExhausted, "rate_limit_error"],
  IDEMPOTENCY_KEY_REUSED: [422, Code.FailedPrecondition, "invalid_request_error"],
  IDEMPOTENCY_KEY_IN_USE: [409, Code.Aborted, "invalid_request_error"],
  IDEMPOTENCY_ANSWER_GONE: [409, Code.FailedPrecondition, "invalid_request_error"],
  APP_FAILED: [502, Code.Unknown, "api_error"],
  APP_TIMEOUT: [504, Code.DeadlineExceeded, "api_error"],
  APP_BUSY: [503, Code.Unavailable, "api_error"],
  APP_UNREACHABLE: [503, Code.Unavailable, "api_error"],
  UNAVAILABLE: [503, Code.Unavailable, "api_error"],
  OVERLOADED: [503, Code.Unavailable, "api_error"],
  INTERNAL: [500, Code.Internal, "api_error"],
} satisfies Partial<Record<Reason, readonly [number, Code, string]>>;

test.each(Object.entries(ofRuns))(
  "%s has the status, the code and the type of the API: %j",
  (reason, facts) => {
    const { httpStatus, code, type } = rowOf(reason as Reason);
    expect([httpStatus, code, type]).toEqual(facts);
  },
);
