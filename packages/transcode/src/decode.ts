import { fromJson, isMessage, type JsonObject, type Message, type Registry } from "@bufbuild/protobuf";
import { isReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { HttpBodySchema } from "../gen/google/api/httpbody_pb.ts";
import { type Binding, hasRawBody } from "./binding.ts";
import { type BodyReader, createBodyReader } from "./body.ts";
import { flatRequestReaderOf } from "./flat-request.ts";
import { messageDepthMax } from "./known-type-check.ts";
import { type BodyHeaders, checkEncoding, checkJsonHeaders } from "./media.ts";
import type { Checks } from "./message-check.ts";
import { type Problem, problem, problemOf } from "./problem.ts";
import { createQueryReader } from "./query.ts";
import { jsonOfText, place } from "./request-json.ts";
import type { MatchedRoute } from "./route-table.ts";

/** The body of a request and the headers that describe it. */
export interface RequestParts extends BodyHeaders {
  /** The whole body; empty if there is none. */
  readonly body: Uint8Array;
}

export type Decoded = { readonly kind: "message"; readonly message: Message } | Problem;

/** Turns requests for one binding into messages. */
export interface Decoder {
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
  const readBody = isRaw ? readRawBodyOf(binding) : createBodyReader(binding, checks);
  const readPath = createPathReader(binding, checks);
  const readQuery = createQueryReader(binding, checks);
  const readFlat = flatRequestReaderOf(binding);
  const options = { ...(registry && { registry }), recursionLimit: recursionMax };
  return {
    checkMediaType,
    decode(route, parts) {
      const unreadable = checkMediaType(parts);
      if (unreadable !== undefined) return unreadable;
      const usual = readFlat?.(route, parts.body);
      if (usual !== undefined) return { kind: "message", message: usual };
      const body = readBody(parts.body);
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

/** A raw body may have any media type. Without a body no header matters. */
function headersCheckOf(binding: Binding): Decoder["checkMediaType"] {
  if (binding.body.kind === "none") return () => undefined;
  return hasRawBody(binding) ? checkEncoding : checkJsonHeaders;
}

/** Puts an empty message in place of the raw body; `setRawBody` fills it after decoding. */
function readRawBodyOf({ body }: Binding): BodyReader {
  return () => ({ kind: "json", json: body.kind === "field" ? { [body.field.jsonName]: {} } : {} });
}

function createPathReader(binding: Binding, checks: Checks) {
  const variables = binding.variables.map(({ fieldPath, fields }) => {
    const leaf = fields.at(-1) ?? fields[0];
    return { fieldPath, fields, leaf, check: checks.ofItem(leaf) };
  });
  return (captures: ReadonlyMap<string, string>, json: JsonObject): Problem | undefined => {
    for (const { fieldPath, fields, leaf, check } of variables) {
      const value = jsonOfText(leaf, captures.get(fieldPath) ?? "");
      const fault = check(value, 0);
      if (fault !== undefined) return problemOf(fieldPath, fault.words);
      const placed = place(json, fields, value);
      if (placed.kind === "excluded") return problemOf(placed.by, `and ${fieldPath} can't both be set`);
    }
    return undefined;
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
