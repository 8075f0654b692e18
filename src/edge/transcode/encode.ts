import type { Message, Registry } from "@bufbuild/protobuf";
import { isMessage, toJson } from "@bufbuild/protobuf";
import { isReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import type { HttpBody } from "#gen/google/api/httpbody_pb.ts";
import { HttpBodySchema } from "#gen/google/api/httpbody_pb.ts";
import type { Binding } from "./binding.ts";
import { flatWriterOf } from "./flat-message.ts";
import { isJsonObject } from "./known-type-check.ts";

/** The body of an answer and its type. */
export interface EncodedResponse {
  readonly contentType: string;
  readonly body: string | Uint8Array;
}

/** Writes a binding's answers. */
export type Encoder = (message: Message) => EncodedResponse;

/**
 * Compiles a binding's encoder. It writes ProtoJSON in lowerCamelCase with fields at their default, or the bytes of a
 * `google.api.HttpBody`. With `response_body` that field alone; null where it is not set. Throws where the message
 * holds an Any that the registry does not know, or is of another type than the method's output.
 */
export function createEncoder(binding: Binding, registry: Registry | undefined): Encoder {
  const { method, responseBody } = binding;
  const writeFlat = responseBody === undefined ? flatWriterOf(method.output) : undefined;
  const options = { ...(registry && { registry }), alwaysEmitImplicit: true };
  return (message) => {
    const written = writeFlat?.(message);
    if (written !== undefined) return { contentType: "application/json", body: JSON.stringify(written) };
    const raw = rawBodyIn(binding, message);
    if (raw !== undefined) return encodeRaw(raw);
    const json = toJson(method.output, message, options);
    const sent = responseBody === undefined || !isJsonObject(json) ? json : json[responseBody.jsonName];
    return { contentType: "application/json", body: JSON.stringify(sent ?? null) };
  };
}

function rawBodyIn({ method, responseBody }: Binding, message: Message): HttpBody | undefined {
  if (isMessage(message, HttpBodySchema)) return message;
  if (responseBody?.fieldKind !== "message") return undefined;
  const field = reflect(method.output, message, false).get(responseBody);
  return isReflectMessage(field) && isMessage(field.message, HttpBodySchema) ? field.message : undefined;
}

function encodeRaw({ contentType, data }: HttpBody): EncodedResponse {
  return { contentType: contentType === "" ? "application/octet-stream" : contentType, body: data };
}
