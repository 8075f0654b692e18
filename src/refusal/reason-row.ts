/** What a row of the table of reasons has, and what the rows of one class have in common. */

import { Code } from "@connectrpc/connect";
import { bounds } from "../bounds.ts";

/**
 * Everything that depends only on the reason. REST, gRPC, Connect, OpenAPI, the log and the docs
 * read it from here.
 */
export interface ReasonRow {
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
  /** The public message; `{name}` is filled from the metadata. */
  readonly words: string;
  /**
   * Set if a run over REST can be refused so: what fills the example in the OpenAPI document. What
   * depends on the settings is filled there.
   */
  readonly ofRun?: {
    readonly param?: string;
    readonly problem?: string;
    readonly metadata?: Readonly<Record<string, string>>;
    readonly retryAfterMs?: number;
  };
  /** How long a message may be, if it is not the usual bound: in bytes of JSON. */
  readonly messageBytesMax?: number;
  /**
   * The level of the log line. A refusal that callers can cause at will is `debug`, so that they
   * can't fill the disk. One that the operator or the owner of an app can fix is `warn`. A fault of
   * Keyrun is `error`.
   */
  readonly log: "debug" | "warn" | "error";
  /**
   * How long to wait before a repeat, if the refusal names no wait of its own. Absent: waiting does
   * not help.
   */
  readonly retryAfterMs?: number;
  /** The app may have done its work, so a repeat could do it twice. */
  readonly unsafeToRepeat?: true;
  /** It lasts so long that clients must not repeat the request by themselves. */
  readonly untilLater?: true;
  /**
   * An error that every framework of RPCs has: of framing, of a method that nobody serves, of the
   * caller's own deadline. Clients of gRPC and Connect know its code, and expect no details with it
   * (Connect's conformance suite). Over REST it has them like any other.
   */
  readonly withoutRpcDetails?: true;
  /**
   * Headers of the HTTP response, over REST and Connect. `{name}` is filled from the metadata; a
   * header whose name is not in there is left off.
   */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Every 401 names the kind of credential that it asks for (RFC 9110, section 15.5.2). */
const challenge = 'Bearer realm="keyrun"';
/** The challenge has no `error` if the request had no bearer token (RFC 6750, section 3.1). */
export const authentication = {
  type: "authentication_error",
  code: Code.Unauthenticated,
  httpStatus: 401,
  log: "debug",
  headers: { "WWW-Authenticate": `${challenge}, error="invalid_token"` },
} as const;
export const withoutCredential = { ...authentication, headers: { "WWW-Authenticate": challenge } } as const;
export const permission = {
  type: "permission_error",
  code: Code.PermissionDenied,
  httpStatus: 403,
  log: "debug",
} as const;
/** Caches may keep such an answer unasked (RFC 9110, section 15.1), but the thing may come. */
const uncached = { "Cache-Control": "no-store" } as const;
export const notFound = {
  type: "not_found_error",
  code: Code.NotFound,
  httpStatus: 404,
  log: "debug",
  headers: uncached,
} as const;
export const invalid = {
  type: "invalid_request_error",
  code: Code.InvalidArgument,
  httpStatus: 400,
  log: "debug",
} as const;
export const exists = { ...invalid, code: Code.AlreadyExists, httpStatus: 409 } as const;
export const exhausted = { ...invalid, code: Code.ResourceExhausted } as const;
export const failedPrecondition = { ...invalid, code: Code.FailedPrecondition } as const;
export const unimplemented = { ...invalid, code: Code.Unimplemented, headers: uncached } as const;
export const unavailable = {
  type: "api_error",
  code: Code.Unavailable,
  httpStatus: 503,
  log: "warn",
  retryAfterMs: bounds.retryAfterUnavailableMs,
} as const;
export const late = {
  type: "api_error",
  code: Code.DeadlineExceeded,
  httpStatus: 504,
  log: "warn",
} as const;
