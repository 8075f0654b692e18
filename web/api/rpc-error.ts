/** An RPC that Keyrun, or something before it, has refused. */
export class RpcError extends Error {
  override readonly name = "RpcError";
  /** Connect's code, such as "not_found". */
  readonly code: string;
  /** Keyrun's reason, such as TEAM_NOT_FOUND; null if the refusal is not Keyrun's. */
  readonly reason: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly requestId: string | null;

  constructor(parts: {
    readonly code: string;
    readonly message?: string;
    readonly reason?: string | null;
    readonly metadata?: Readonly<Record<string, string>>;
    readonly requestId?: string | null;
  }) {
    super(parts.message ?? "");
    this.code = parts.code;
    this.reason = parts.reason ?? null;
    this.metadata = parts.metadata ?? {};
    this.requestId = parts.requestId ?? null;
  }
}

/** The error of an answer that is a refusal. */
export async function errorOf(response: Response): Promise<RpcError> {
  return rpcErrorOf(await response.json().catch(() => undefined), response);
}

/** Something between browser and Keyrun has answered, such as the sign-in page of a network. */
export function notConnect(response: Response): RpcError {
  return new RpcError({ code: "unknown", requestId: requestIdOf(response) });
}

/**
 * The error of an answer, by its body: https://connectrpc.com/docs/protocol/#error-end-stream.
 * Without Connect's body, something between browser and Keyrun has answered.
 */
export function rpcErrorOf(json: unknown, response: Response): RpcError {
  const requestId = requestIdOf(response);
  const { code, message = "", details = [] } = isConnectError(json) ? json : {};
  if (!code) return new RpcError({ code: codesByStatus[response.status] ?? "unknown", requestId });
  // The reason as JSON is in `debug`; `value` has the same as bytes.
  const info = details.find(({ type, debug }) => {
    return type === "google.rpc.ErrorInfo" && debug?.domain === "keyrun";
  })?.debug;
  const { reason = null, metadata = {} } = info ?? {};
  return new RpcError({ code, message, reason, metadata, requestId });
}

/** What Keyrun's refusals have; that of another server may have a part of it. */
interface ConnectError {
  readonly code?: string;
  readonly message?: string;
  readonly details?: readonly {
    readonly type?: string;
    readonly debug?: {
      readonly domain?: string;
      readonly reason?: string;
      readonly metadata?: Record<string, string>;
    };
  }[];
}

function isConnectError(json: unknown): json is ConnectError {
  if (typeof json !== "object" || json === null || !("code" in json)) return false;
  return typeof json.code === "string" && (!("details" in json) || Array.isArray(json.details));
}

function requestIdOf({ headers }: Response): string | null {
  return headers.get("x-request-id");
}

export function isOf(response: Response, type: string): boolean {
  return response.headers.get("content-type")?.split(";")[0] === type;
}

// https://connectrpc.com/docs/protocol/#http-to-error-code
const codesByStatus: Readonly<Record<number, string>> = {
  400: "internal",
  401: "unauthenticated",
  403: "permission_denied",
  404: "unimplemented",
  429: "unavailable",
  502: "unavailable",
  503: "unavailable",
  504: "unavailable",
};
