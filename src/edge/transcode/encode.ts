import type { Message, Registry } from "@bufbuild/protobuf";
import { isMessage, toJson } from "@bufbuild/protobuf";
import { isReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import type { HttpBody } from "#gen/google/api/httpbody_pb.ts";
import { HttpBodySchema } from "#gen/google/api/httpbody_pb.ts";
import type { Binding } from "./binding.ts";
import { isJsonObject } from "./known-type-check.ts";

/** The body of an answer and its type. */
export interface EncodedResponse {
  readonly contentType: string;
  readonly body: string | Uint8Array;
}

/**
 * Writes a binding's answer: ProtoJSON in lowerCamelCase with fields at their default, or the bytes of a
 * `google.api.HttpBody`. With `response_body` that field alone; null where it is not set. Throws where the
 * message holds an Any that the registry does not know, or is of another type than the method's output.
 */
export function encodeMessage(
  { method, responseBody }: Binding,
  message: Message,
  registry: Registry | undefined,
): EncodedResponse {
  if (isMessage(message, HttpBodySchema)) return encodeRaw(message);
  if (responseBody?.fieldKind === "message") {
    const field = reflect(method.output, message, false).get(responseBody);
    if (isReflectMessage(field) && isMessage(field.message, HttpBodySchema)) return encodeRaw(field.message);
  }
  const json = toJson(method.output, message, { ...(registry && { registry }), alwaysEmitImplicit: true });
  const sent = responseBody === undefined || !isJsonObject(json) ? json : json[responseBody.jsonName];
  return { contentType: "application/json", body: JSON.stringify(sent ?? null) };
}

function encodeRaw({ contentType, data }: HttpBody): EncodedResponse {
  return { contentType: contentType === "" ? "application/octet-stream" : contentType, body: data };
}
