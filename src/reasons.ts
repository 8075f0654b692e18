import { Code } from "@connectrpc/connect";

interface Row {
  /** The class of error that API clients switch on. */
  readonly type:
    | "authentication_error"
    | "permission_error"
    | "invalid_request_error"
    | "not_found_error"
    | "rate_limit_error"
    | "api_error";
  readonly code: Code;
  readonly httpStatus: number;
  /** Public words; `{name}` is filled from the metadata. */
  readonly words: string;
}

const authentication = { type: "authentication_error", code: Code.Unauthenticated, httpStatus: 401 } as const;
const notFound = { type: "not_found_error", code: Code.NotFound, httpStatus: 404 } as const;
const invalid = { type: "invalid_request_error", code: Code.InvalidArgument, httpStatus: 400 } as const;
const exists = { type: "invalid_request_error", code: Code.AlreadyExists, httpStatus: 409 } as const;

/** Every reason for which a request can end, with all that a caller is told (AIP-193). */
export const reasons = {
  MISSING_API_KEY: {
    ...authentication,
    words: "No API key was sent. Send the header `Authorization: Bearer <API key>`.",
  },
  MALFORMED_AUTHORIZATION: {
    ...authentication,
    words: "The Authorization header can't be read. Send it once, as `Authorization: Bearer <API key>`.",
  },
  INVALID_API_KEY: {
    ...authentication,
    words: "The API key is incomplete or not known. Check that it was copied whole, or create a new one.",
  },
  REVOKED_API_KEY: {
    ...authentication,
    words: "The API key was revoked at {revoke_time} and will not work again. Create a new one.",
  },
  MISSING_CREDENTIAL: {
    ...authentication,
    words: "No credential was sent that this method takes.",
  },
  INVALID_CREDENTIAL: {
    ...authentication,
    words: "The credential is not one that this method takes.",
  },
  PERMISSION_DENIED: {
    type: "permission_error",
    code: Code.PermissionDenied,
    httpStatus: 403,
    words: "You may not do this.",
  },
  PREVIEW_REQUIRED: {
    type: "permission_error",
    code: Code.PermissionDenied,
    httpStatus: 403,
    words: "API keys are in preview and limited to selected users. Ask your operator for preview access.",
  },
  NOT_FOUND: {
    ...notFound,
    words: "There is nothing at this path. Run an app with `POST /api/apps/<app_id>/run`.",
  },
  APP_NOT_FOUND: {
    ...notFound,
    words: "There is no app of this id that the team may run. Check the app id in the path.",
  },
  TEAM_NOT_FOUND: { ...notFound, words: "There is no team of this id." },
  KEY_NOT_FOUND: { ...notFound, words: "The team has no key of this id." },
  METHOD_NOT_ALLOWED: {
    type: "invalid_request_error",
    code: Code.Unimplemented,
    httpStatus: 405,
    words: "This path does not take this method. Use one of: {allow}.",
  },
  UNIMPLEMENTED: {
    type: "invalid_request_error",
    code: Code.Unimplemented,
    httpStatus: 501,
    words: "This method is not served here.",
  },
  // The code that gRPC asks for (its compression.md), though the fault is the caller's.
  MISSING_GRPC_ENCODING: {
    type: "invalid_request_error",
    code: Code.Internal,
    httpStatus: 400,
    words:
      "The message is marked as compressed, but no grpc-encoding was sent. Name it, or send the message plain.",
  },
  INVALID_JSON: { ...invalid, words: "The body is not valid JSON." },
  INVALID_ARGUMENT: { ...invalid, words: "The request is not valid." },
  /** What the HTTP parser refuses: it never gets as far as a path, so no rate limit is known. */
  MALFORMED_REQUEST: { ...invalid, words: "The request is not valid HTTP." },
  REQUEST_TIMEOUT: {
    type: "invalid_request_error",
    code: Code.DeadlineExceeded,
    httpStatus: 408,
    words: "The request did not arrive in time. Send it again, whole.",
  },
  HEADERS_TOO_LARGE: {
    type: "invalid_request_error",
    code: Code.ResourceExhausted,
    httpStatus: 431,
    words: "The request's headers are too large or too many. Send less.",
  },
  REQUEST_TOO_LARGE: {
    type: "invalid_request_error",
    code: Code.ResourceExhausted,
    httpStatus: 413,
    words: "The body is larger than {bytes_max} bytes. Send less.",
  },
  UNSUPPORTED_MEDIA_TYPE: {
    type: "invalid_request_error",
    code: Code.InvalidArgument,
    httpStatus: 415,
    words: "The body must be JSON, uncompressed. Send `Content-Type: application/json`.",
  },
  RATE_LIMIT_EXCEEDED: {
    type: "rate_limit_error",
    code: Code.ResourceExhausted,
    httpStatus: 429,
    words: "The team has used its {limit} requests a minute. Try again in {retry_after_s} s.",
  },
  KEY_LIMIT_REACHED: {
    type: "invalid_request_error",
    code: Code.FailedPrecondition,
    httpStatus: 400,
    words: "The team has {active_key_count_max} active keys, as many as it may. Revoke one first.",
  },
  REQUEST_ID_USED: {
    ...exists,
    words:
      "A key was already created with this request_id. Its value can't be shown again: revoke it and create a new one.",
  },
  LOCAL_SIGN_IN_OFF: {
    type: "invalid_request_error",
    code: Code.FailedPrecondition,
    httpStatus: 400,
    words: "Sign-in is not local here, so there are no sign-in links. Sign in at {sign_in_url}.",
  },
  INVALID_SIGN_IN_CODE: {
    ...authentication,
    words:
      "This sign-in link was used before, or is too old. Make a new one with `npx --no-install keyrun sign-in-link`.",
  },
  SIGN_IN_FAILED: {
    ...authentication,
    words: "The sign-in did not succeed. Try again.",
  },
  CROSS_SITE_REQUEST: {
    type: "permission_error",
    code: Code.PermissionDenied,
    httpStatus: 403,
    words: "The request comes from another site, and was not carried out.",
  },
  MISDIRECTED_REQUEST: {
    type: "invalid_request_error",
    code: Code.InvalidArgument,
    httpStatus: 421,
    words:
      "Keyrun's screen is not served under this host name. Use the address that it printed at its start.",
  },
  TEAM_EXISTS: { ...exists, words: "There is a team of this id already. Choose another id." },
  APP_EXISTS: { ...exists, words: "There is an app of this id already. Choose another id, or update it." },
  APP_FAILED: {
    type: "api_error",
    code: Code.Unknown,
    httpStatus: 502,
    words: "The app failed. It may have done its work: repeat the request only if that is safe.",
  },
  APP_TIMEOUT: {
    type: "api_error",
    code: Code.DeadlineExceeded,
    httpStatus: 504,
    words:
      "The app did not answer in time. It may have done its work: repeat the request only if that is safe.",
  },
  DEADLINE_EXCEEDED: {
    type: "api_error",
    code: Code.DeadlineExceeded,
    httpStatus: 504,
    words: "The request was not done by its deadline.",
  },
  CANCELLED: { type: "api_error", code: Code.Canceled, httpStatus: 499, words: "The caller went away." },
  APP_BUSY: {
    type: "api_error",
    code: Code.Unavailable,
    httpStatus: 503,
    words: "The app is running as often at once as it may. Try again in a second.",
  },
  UNAVAILABLE: {
    type: "api_error",
    code: Code.Unavailable,
    httpStatus: 503,
    words: "Keyrun can't answer this now. Try again in a second.",
  },
  STORE_FULL: {
    type: "api_error",
    code: Code.ResourceExhausted,
    httpStatus: 507,
    words: "The store has no room left, and nothing was written. Try again once the operator made room.",
  },
  INTERNAL: {
    type: "api_error",
    code: Code.Internal,
    httpStatus: 500,
    words: "Something went wrong in Keyrun.",
  },
} as const satisfies Record<string, Row>;

export type Reason = keyof typeof reasons;
