import { isMessage, type Message, type Registry, toJson } from "@bufbuild/protobuf";
import { isReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { type HttpBody, HttpBodySchema } from "../gen/google/api/httpbody_pb.ts";
import type { Binding } from "./binding.ts";
import { flatWriterOf } from "./flat-message.ts";
import { isJsonObject } from "./known-type-check.ts";

/** The body of a response and its media type. */
export interface EncodedResponse {
  readonly contentType: string;
  readonly body: string | Uint8Array;
}

/** Encodes the response message of a binding. */
export type Encoder = (message: Message) => EncodedResponse;

/**
 * Compiles the encoder of a binding. It writes ProtoJSON in lowerCamelCase, with fields at their
 * default, or the bytes of a `google.api.HttpBody`. With `response_body` it writes only that field,
 * or null if it is not set. Throws if the message is not of the method's output type, or holds an
 * Any of a type that the registry does not know.
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
