import { fieldOf, list, text } from "./json-readers.ts";

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

/**
 * The error of an answer, by its body: https://connectrpc.com/docs/protocol/#error-end-stream.
 * Without Connect's body, something between browser and Keyrun has answered.
 */
export function rpcErrorOf(json: unknown, answer: { status: number; requestId: string | null }): RpcError {
  const { status, requestId } = answer;
  const code = text(fieldOf(json, "code"));
  if (code === "") return new RpcError({ code: codesByStatus[status] ?? "unknown", requestId });
  // The reason as JSON is in `debug`; `value` has the same as bytes.
  const infos = list((detail) =>
    text(fieldOf(detail, "type")) === "google.rpc.ErrorInfo" ? fieldOf(detail, "debug") : undefined,
  )(fieldOf(json, "details"));
  const info = infos.find((one) => fieldOf(one, "domain") === "keyrun");
  return new RpcError({
    code,
    message: text(fieldOf(json, "message")),
    reason: text(fieldOf(info, "reason")) || null,
    metadata: (fieldOf(info, "metadata") ?? {}) as Record<string, string>,
    requestId,
  });
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
