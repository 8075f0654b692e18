/** The table of all reasons: what each caller is told, whatever the protocol. */

import { Code } from "@connectrpc/connect";
import { bounds } from "../bounds.ts";
import {
  authentication,
  exhausted,
  exists,
  failedPrecondition,
  invalid,
  late,
  notFound,
  permission,
  type ReasonRow,
  unavailable,
  unimplemented,
  withoutCredential,
} from "./reason-row.ts";

/**
 * Every reason for which a request can be refused, with everything that the caller is told
 * (AIP-193).
 */
export const reasons = {
  MISSING_API_KEY: {
    ...withoutCredential,
    words: "No API key was sent. Send the header `Authorization: Bearer <API key>`.",
    ofRun: {},
  },
  MALFORMED_AUTHORIZATION: {
    ...withoutCredential,
    words: "The Authorization header can't be read. Send it once, as `Authorization: Bearer <API key>`.",
    ofRun: {},
  },
  INVALID_API_KEY: {
    ...authentication,
    words: "The API key is incomplete or not known. Check that it was copied whole, or create a new one.",
    ofRun: {},
  },
  REVOKED_API_KEY: {
    ...authentication,
    words: "The API key was revoked at {revoke_time} and will not work again. Create a new one.",
    ofRun: { metadata: { revoke_time: "2026-05-04T12:00:00.000Z" } },
  },
  EXPIRED_API_KEY: {
    ...authentication,
    words: "The API key expired at {expire_time} and will not work again. Create a new one.",
    ofRun: { metadata: { expire_time: "2026-05-04T12:00:00.000Z" } },
  },
  SERVICE_ROLE_REQUIRED: {
    ...permission,
    words: "The token of the service `{service}` may not do this. It needs one with the role {role}.",
  },
  SERVICE_TOKEN_NOT_FOUND: { ...notFound, words: "There is no service token with this id." },
  SERVICE_TOKEN_LIMIT_REACHED: {
    ...failedPrecondition,
    words:
      "There are {service_token_count_max} accepted service tokens, the most there may be. Revoke one first.",
  },
  SERVICE_TOKEN_OF_SETTINGS: {
    ...failedPrecondition,
    words:
      "The token `local` is that of the settings and can't be revoked so. Change KEYRUN_SERVICE_TOKEN, or replace the file service-token in the data folder, and restart Keyrun.",
  },
  SERVICE_TOKEN_EXISTS: {
    ...exists,
    words: "An accepted service token has the name `{name}`. Choose another name, or revoke that one first.",
  },
  MISSING_CREDENTIAL: { ...withoutCredential, words: "This method needs a credential, and none was sent." },
  INVALID_CREDENTIAL: { ...authentication, words: "This method does not accept this credential." },
  PREVIEW_REQUIRED: {
    ...permission,
    words: "API keys are in preview and limited to selected users. Ask your operator for preview access.",
  },
  APP_NOT_ALLOWED: {
    ...permission,
    words: "The API key is restricted to other apps. Run one of those, or use a key that may run this one.",
    ofRun: { param: "app_id", metadata: { app_id: "echo" } },
  },
  APP_NOT_FOUND: {
    ...notFound,
    words: "The team has no app with this id. Check the app id.",
    ofRun: { param: "app_id", metadata: { app_id: "ecko" } },
  },
  NOT_FOUND: {
    ...notFound,
    words: "There is nothing at this path. Run an app with `POST /api/apps/<app_id>/run`.",
    ofRun: {},
  },
  TEAM_NOT_FOUND: { ...notFound, words: "There is no team with this id." },
  KEY_NOT_FOUND: { ...notFound, words: "The team has no key with this id." },
  METHOD_NOT_ALLOWED: {
    ...unimplemented,
    httpStatus: 405,
    headers: { ...unimplemented.headers, Allow: "{allow}" },
    words: "This path does not allow this method. Use one of: {allow}.",
    ofRun: { metadata: { allow: "POST" } },
  },
  UNIMPLEMENTED: {
    ...unimplemented,
    withoutRpcDetails: true,
    httpStatus: 501,
    words: "This method is not served here.",
  },
  // gRPC's compression.md requires this code, although the fault is the caller's.
  MISSING_GRPC_ENCODING: {
    ...invalid,
    withoutRpcDetails: true,
    code: Code.Internal,
    words:
      "The message is marked as compressed, but no grpc-encoding was sent. Name it, or send the message plain.",
  },
  INVALID_JSON: { ...invalid, words: "The body is not valid JSON.", ofRun: {} },
  INVALID_ARGUMENT: {
    ...invalid,
    words: "The request is not valid.",
    ofRun: {
      param: "text",
      problem: "text or input is required: a string, which may be empty, or a JSON object.",
    },
  },
  /** The HTTP parser refuses the request before there is a path, so no rate limit is known. */
  MALFORMED_REQUEST: { ...invalid, words: "The request is not valid HTTP.", ofRun: {} },
  REQUEST_TIMEOUT: {
    ...invalid,
    code: Code.DeadlineExceeded,
    httpStatus: 408,
    words: "The request did not arrive in time. Send the whole request again.",
    ofRun: {},
  },
  HEADERS_TOO_LARGE: {
    ...exhausted,
    httpStatus: 431,
    words: "The request's headers are too large or too many. Send fewer or smaller headers.",
    ofRun: {},
  },
  REQUEST_TOO_LARGE: {
    ...exhausted,
    withoutRpcDetails: true,
    httpStatus: 413,
    words: "The body is larger than {bytes_max} bytes. Send a smaller body.",
    ofRun: {},
  },
  UNSUPPORTED_MEDIA_TYPE: {
    ...invalid,
    httpStatus: 415,
    // The one that is known names what was wrong: the type or the compression.
    headers: { Accept: "{accept}", "Accept-Encoding": "{accept_encoding}" },
    words: "The body must be JSON, uncompressed. Send `Content-Type: application/json`.",
    ofRun: {},
  },
  RATE_LIMIT_EXCEEDED: {
    ...exhausted,
    type: "rate_limit_error",
    httpStatus: 429,
    words: "The {subject} has used its {limit} requests a minute. Try again in {retry_after_s} s.",
    ofRun: { metadata: { subject: "team", retry_after_s: "7" }, retryAfterMs: 6_120 },
  },
  QUOTA_EXCEEDED: {
    ...exhausted,
    type: "rate_limit_error",
    httpStatus: 429,
    untilLater: true,
    words:
      "The {subject} has used its {limit} requests of this {period}. Requests are accepted again from {reset_time} (UTC) on, or once the operator grants more.",
    ofRun: {
      metadata: { subject: "team", limit: "100000", period: "month", reset_time: "2026-12-01T00:00:00Z" },
      retryAfterMs: bounds.quotaRetryAfterMsMax,
    },
  },
  KEY_LIMIT_REACHED: {
    ...failedPrecondition,
    words: "The team has {active_key_count_max} active keys, the most it may have. Revoke one first.",
  },
  KEY_ENDED: {
    ...failedPrecondition,
    words: "The key is revoked or expired already, so its expiry can't be changed.",
  },
  KEY_NOT_ROTATABLE: { ...failedPrecondition, words: "The key can't be rotated. Create a new one." },
  TEAM_HAS_KEYS: {
    ...failedPrecondition,
    words: "Team `{team_id}` has active keys ({active_key_count}), so it was not deleted. Revoke them first.",
  },
  TEAM_HAS_APPS: {
    ...failedPrecondition,
    words:
      "Apps are limited to team `{team_id}` ({app_ids}), so it was not deleted. Limit them to other teams, or delete them, first.",
  },
  TEAM_ENDING: {
    ...failedPrecondition,
    words:
      "Team `{team_id}` is being deleted, so nothing can be added to it. If its deletion was interrupted, repeat it.",
  },
  REQUEST_ID_USED: {
    ...exists,
    words:
      "A key was already created with this request_id. Its value can't be shown again: revoke it and create a new one.",
  },
  LOCAL_SIGN_IN_OFF: {
    ...failedPrecondition,
    words: "Sign-in is not local here, so there are no sign-in links. Sign in at {sign_in_url}.",
  },
  INVALID_SIGN_IN_CODE: {
    ...authentication,
    words:
      "This sign-in link was used before, or is too old. Make a new one with the command `sign-in-link`.",
  },
  SIGN_IN_FAILED: { ...authentication, words: "The sign-in did not succeed. Try again." },
  CROSS_SITE_REQUEST: {
    ...permission,
    words: "The request comes from another site, and was not carried out.",
  },
  MISDIRECTED_REQUEST: {
    ...invalid,
    httpStatus: 421,
    words:
      "Keyrun's screen is not served under this host name. Use the address that it printed at its start.",
  },
  TEAM_HAS_NO_QUOTA: {
    ...failedPrecondition,
    words:
      "The plan of team `{team_id}` has no quota, so no request can be granted. KEYRUN_PLAN_QUOTAS sets the quotas of plans.",
  },
  TEAM_EXISTS: { ...exists, words: "There is already a team with this id. Choose another id." },
  APP_EXISTS: { ...exists, words: "There is already an app with this id. Choose another id, or update it." },
  APP_FAILED: {
    type: "api_error",
    log: "warn",
    unsafeToRepeat: true,
    code: Code.Unknown,
    httpStatus: 502,
    words: "The app failed. It may have done its work: repeat the request only if that is safe.",
    ofRun: {},
  },
  /** The message is the app's own. The log has these words: an app may repeat what it was sent. */
  APP_REFUSED: {
    ...invalid,
    log: "warn",
    unsafeToRepeat: true,
    httpStatus: 422,
    messageBytesMax: bounds.appWordsBytesMax,
    words: "The app refuses this run. Its message says why: change the request.",
    ofRun: {},
  },
  APP_TIMEOUT: {
    ...late,
    unsafeToRepeat: true,
    words:
      "The app did not answer in time. It may have done its work: repeat the request only if that is safe.",
    ofRun: {},
  },
  IDEMPOTENCY_KEY_REUSED: {
    ...failedPrecondition,
    httpStatus: 422,
    words: "This Idempotency-Key was sent before with another input. Send each input with a key of its own.",
    ofRun: {},
  },
  IDEMPOTENCY_KEY_IN_USE: {
    ...invalid,
    code: Code.Aborted,
    httpStatus: 409,
    retryAfterMs: bounds.retryAfterUnavailableMs,
    words: "The run of this Idempotency-Key has not ended. Repeat the request with the same key in a second.",
    ofRun: {},
  },
  IDEMPOTENCY_ANSWER_GONE: {
    ...failedPrecondition,
    httpStatus: 409,
    unsafeToRepeat: true,
    words:
      "The app has done its work for this Idempotency-Key, but its answer is no longer kept. To run the app again, send a new key.",
    ofRun: {},
  },
  RUN_NOT_FOUND: {
    ...notFound,
    words: "There is no run in the background with this id. It may be kept no longer: check the run id.",
  },
  RUN_INTERRUPTED: {
    type: "api_error",
    log: "warn",
    unsafeToRepeat: true,
    code: Code.Unknown,
    httpStatus: 502,
    words:
      "The run was cut off, as its instance of Keyrun stopped. The app may have done its work: repeat the request only if that is safe.",
    ofRun: {},
  },
  RUN_CANCELLED: {
    ...invalid,
    code: Code.Aborted,
    httpStatus: 409,
    words: "The run was cancelled. The app may have done a part of its work.",
    ofRun: {},
  },
  BACKGROUND_RUNS_OFF: {
    ...failedPrecondition,
    words:
      "There are no runs in the background here, as nothing is kept of runs (KEYRUN_IDEMPOTENCY_HOURS=0). Use RunApp.",
  },
  DEADLINE_EXCEEDED: {
    ...late,
    withoutRpcDetails: true,
    words: "The request was not done by its deadline.",
  },
  CANCELLED: {
    type: "api_error",
    log: "debug",
    code: Code.Canceled,
    httpStatus: 499,
    words: "The caller disconnected.",
  },
  APP_BUSY: {
    ...unavailable,
    words: "The app can take no more runs now, and this one was not started. Try again in a second.",
    ofRun: {},
  },
  APP_UNREACHABLE: {
    ...unavailable,
    words: "The app could not be reached, and nothing was sent to it. Try again in a second.",
    ofRun: {},
  },
  UNAVAILABLE: { ...unavailable, words: "Keyrun can't answer this now. Try again in a second.", ofRun: {} },
  /** Callers can cause it at will, so each is no line of the log: beginning and end of it are. */
  OVERLOADED: {
    ...unavailable,
    log: "debug",
    words: "Keyrun has more to do, or more to hold, than it can. Try again in a second.",
    ofRun: {},
  },
  STORE_FULL: {
    type: "api_error",
    log: "warn",
    code: Code.ResourceExhausted,
    httpStatus: 507,
    words:
      "The store has no room left, and nothing was written. Try again after the operator has freed space.",
  },
  INTERNAL: {
    type: "api_error",
    log: "error",
    code: Code.Internal,
    httpStatus: 500,
    words: "Something went wrong in Keyrun.",
    ofRun: {},
  },
} as const satisfies Record<string, ReasonRow>;

export type Reason = keyof typeof reasons;

/** Those for which a run over REST can be refused. */
export const runReasons: readonly Reason[] = Object.keys(reasons)
  .filter(isReason)
  .filter((reason) => rowOf(reason).ofRun !== undefined);

export function isReason(text: string): text is Reason {
  return Object.hasOwn(reasons, text);
}

export function rowOf(reason: Reason): ReasonRow {
  return reasons[reason];
}
