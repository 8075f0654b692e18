// The way of a request into a message: the headers are checked, then path, query and body become
// one JSON object, which Protobuf-ES reads. A `google.api.HttpBody` keeps its bytes.

import { fromJson, isMessage, type Message, type Registry } from "@bufbuild/protobuf";
import { isReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { HttpBodySchema } from "../gen/google/api/httpbody_pb.ts";
import { type Binding, hasRawBody } from "./binding.ts";
import { type BodyReader, createBodyReader } from "./body.ts";
import { flatRequestReaderOf } from "./flat-message.ts";
import type { Checks } from "./message-check.ts";
import { type Problem, problem } from "./problem.ts";
import { createPathReader, createQueryReader } from "./request-json.ts";
import type { MatchedRoute } from "./route-table.ts";
import { messageDepthMax } from "./value-check.ts";

/** The headers that describe a body; undefined if the caller did not send the header. */
export interface BodyHeaders {
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
}

/** The body of a request and the headers that describe it. */
export interface RequestParts extends BodyHeaders {
  /** The whole body; empty if there is none. */
  readonly body: Uint8Array;
}

export type Decoded = { readonly kind: "message"; readonly message: Message } | Problem;

/** Turns requests for one binding into messages. */
export interface Decoder {
  /** What an empty body would not be refused for. */
  checkMediaType(headers: BodyHeaders): Problem | undefined;
  decode(route: MatchedRoute, parts: RequestParts): Decoded;
}

/**
 * Compiles the decoder of a binding. Path, query and body become one JSON object, which Protobuf-ES
 * then reads. Each value is checked before they are merged, so that an error names the field as the
 * caller wrote it.
 */
export function createDecoder(binding: Binding, checks: Checks, registry: Registry | undefined): Decoder {
  const { input } = binding.method;
  const isRaw = hasRawBody(binding);
  const checkMediaType = headersCheckOf(binding);
  const reader = isRaw ? rawBodyReaderOf(binding) : createBodyReader(binding, checks);
  const readPath = createPathReader(binding, checks);
  const readQuery = createQueryReader(binding, checks);
  const readFlat = flatRequestReaderOf(binding);
  const options = { ...(registry && { registry }), recursionLimit: recursionMax };
  return {
    checkMediaType,
    decode(route, parts) {
      const unreadable = parts.body.length > 0 ? checkMediaType(parts) : undefined;
      if (unreadable !== undefined) return unreadable;
      const parsed = reader.parse(parts.body);
      if (parsed.kind === "problem") return parsed;
      const usual = readFlat?.(route, parsed.json);
      if (usual !== undefined) return { kind: "message", message: usual };
      const body = reader.check(parsed);
      if (body.kind === "problem") return body;
      const { json } = body;
      const refused = readPath(route.captures, json) ?? readQuery(route.query, json);
      if (refused !== undefined) return refused;
      try {
        const message = fromJson(input, json, options);
        if (isRaw) setRawBody(binding, message, parts);
        return { kind: "message", message };
      } catch {
        // The checks should have found the fault and named the field. If they did not, the caller
        // still gets a 400 and not a 500.
        return problem("invalid_argument", "The request does not fit the method's message.");
      }
    },
  };
}

/**
 * Protobuf-ES counts up to two levels for a JSON value that the checks count as one. This bound is
 * high enough that the checks always refuse first.
 */
const recursionMax = 2 * messageDepthMax + 2;

/** A raw body may have any media type. Where no body is read, no header matters. */
function headersCheckOf(binding: Binding): Decoder["checkMediaType"] {
  if (binding.body.kind === "none") return () => undefined;
  return hasRawBody(binding) ? checkEncoding : checkJsonHeaders;
}

/**
 * Returns undefined if the headers allow a JSON body: `application/json` in UTF-8, or no type at
 * all, and no compression (RFC 9110, sections 8.3 and 8.4).
 */
function checkJsonHeaders(headers: BodyHeaders): Problem | undefined {
  const { contentType } = headers;
  if (contentType !== undefined && contentType !== "application/json" && !isJsonType(contentType)) {
    const words = "Send the body as JSON in UTF-8, with Content-Type: application/json.";
    return { ...problem("unsupported_media_type", words), readable: { accept: "application/json" } };
  }
  return checkEncoding(headers);
}

/** Returns undefined if the body is not compressed. */
function checkEncoding({ contentEncoding }: BodyHeaders): Problem | undefined {
  if (contentEncoding === undefined || /^\s*(identity)?\s*$/i.test(contentEncoding)) return undefined;
  const words = "Send the body uncompressed, without Content-Encoding.";
  return { ...problem("unsupported_media_type", words), readable: { accept_encoding: "identity" } };
}

/** An empty Content-Type counts as none. */
function isJsonType(contentType: string): boolean {
  const [type = "", ...parameters] = contentType.toLowerCase().split(";");
  if (type.trim() === "") return parameters.length === 0;
  return type.trim() === "application/json" && parameters.every(isNoOtherCharset);
}

/**
 * JSON is always UTF-8 (RFC 8259). A declared charset that differs is refused, because the body
 * would be misread.
 */
function isNoOtherCharset(parameter: string): boolean {
  const [name = "", value = ""] = parameter.split("=");
  return name.trim() !== "charset" || /^\s*"?(utf-?8|us-ascii)"?\s*$/.test(value);
}

/** Puts an empty message in place of the raw body; `setRawBody` fills it after decoding. */
function rawBodyReaderOf({ body }: Binding): BodyReader {
  return {
    parse: () => ({ kind: "json", json: {}, text: "" }),
    check: () => ({ kind: "json", json: body.kind === "field" ? { [body.field.jsonName]: {} } : {} }),
  };
}

/**
 * Copies the body's bytes, unchanged, and its media type into the message's `google.api.HttpBody`.
 */
function setRawBody({ method, body }: Binding, message: Message, parts: RequestParts): void {
  const field = body.kind === "field" ? reflect(method.input, message, false).get(body.field) : undefined;
  const target = isReflectMessage(field) ? field.message : message;
  if (!isMessage(target, HttpBodySchema)) return;
  target.contentType = parts.contentType ?? "";
  target.data = parts.body;
}
