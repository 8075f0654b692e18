import type { Code } from "@connectrpc/connect";

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
