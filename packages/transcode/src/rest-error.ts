// Failures as the caller of REST gets them: an HTTP status, and a `google.rpc.Status` in JSON as
// https://google.aip.dev/193 has it, under the key `error`.

import { create, type JsonObject, type Registry, toJson } from "@bufbuild/protobuf";
import { base64Encode } from "@bufbuild/protobuf/wire";
import { type Any, AnySchema, anyPack } from "@bufbuild/protobuf/wkt";
import type { Problem } from "./problem.ts";

export interface RestError {
  readonly httpStatus: number;
  /** The name of the code in `google/rpc/code.proto`. */
  readonly status: string;
  readonly message: string;
  /** Each with an `@type`, as `google.protobuf.Any` has it in JSON. */
  readonly details: readonly JsonObject[];
}

/** The body of an error, and the last line of a stream that broke off. */
export function jsonOfError({ httpStatus, status, message, details }: RestError): string {
  return JSON.stringify({ error: { code: httpStatus, message, status, details } });
}

/** The error for a request that can't become a message. It names the field at fault. */
export function errorOfProblem({ problem, param, words }: Problem): RestError {
  const message = param === null ? words : `${param} ${words}`;
  const httpStatus = problem === "unsupported_media_type" ? 415 : 400;
  const violation = { field: param, description: words };
  const details =
    param === null
      ? []
      : [{ "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations: [violation] }];
  return { httpStatus, status: "INVALID_ARGUMENT", message, details };
}

/**
 * The error for what a transport threw. Connect's errors are known by their form. What else is
 * thrown is INTERNAL, and its words are not passed on: they may be secret.
 */
export function errorOfThrown(thrown: unknown, registry: Registry | undefined): RestError {
  if (!isRpcError(thrown)) {
    return { httpStatus: 500, status: "INTERNAL", message: "Internal error.", details: [] };
  }
  const [status, httpStatus] = codes[thrown.code] ?? unknownCode;
  const details = thrown.details.map((detail) => jsonOfDetail(detail, registry));
  return { httpStatus, status, message: thrown.rawMessage, details };
}

/** What is read of Connect's `ConnectError`. */
interface RpcError {
  readonly code: number;
  readonly rawMessage: string;
  readonly details: readonly RpcErrorDetail[];
}

type RpcErrorDetail =
  /** From the wire. */
  | { readonly type: string; readonly value: Uint8Array }
  /** From a service in this process. */
  | { readonly desc: Parameters<typeof anyPack>[0]; readonly value: Record<string, unknown> };

function isRpcError(thrown: unknown): thrown is RpcError {
  if (!(thrown instanceof Error) || !("code" in thrown) || !("rawMessage" in thrown)) return false;
  if (typeof thrown.code !== "number" || typeof thrown.rawMessage !== "string") return false;
  return "details" in thrown && Array.isArray(thrown.details);
}

/** A detail of a type that the registry does not know keeps its bytes, in base64. */
function jsonOfDetail(detail: RpcErrorDetail, registry: Registry | undefined): JsonObject {
  const any = anyOf(detail);
  try {
    const json = toJson(AnySchema, any, registry && { registry });
    if (typeof json === "object" && json !== null && !Array.isArray(json)) return json;
  } catch {
    // The registry does not know the type, or the bytes are not of it.
  }
  return { "@type": any.typeUrl, value: base64Encode(any.value) };
}

function anyOf(detail: RpcErrorDetail): Any {
  if ("desc" in detail) return anyPack(detail.desc, create(detail.desc, detail.value));
  return create(AnySchema, { typeUrl: `type.googleapis.com/${detail.type}`, value: detail.value });
}

/** By number: the name and the HTTP status that `google/rpc/code.proto` gives them. */
const codes: readonly (readonly [status: string, httpStatus: number] | undefined)[] = [
  undefined,
  ["CANCELLED", 499],
  ["UNKNOWN", 500],
  ["INVALID_ARGUMENT", 400],
  ["DEADLINE_EXCEEDED", 504],
  ["NOT_FOUND", 404],
  ["ALREADY_EXISTS", 409],
  ["PERMISSION_DENIED", 403],
  ["RESOURCE_EXHAUSTED", 429],
  ["FAILED_PRECONDITION", 400],
  ["ABORTED", 409],
  ["OUT_OF_RANGE", 400],
  ["UNIMPLEMENTED", 501],
  ["INTERNAL", 500],
  ["UNAVAILABLE", 503],
  ["DATA_LOSS", 500],
  ["UNAUTHENTICATED", 401],
];

const unknownCode = ["UNKNOWN", 500] as const;
