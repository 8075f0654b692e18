import type { DescService, Message, Registry } from "@bufbuild/protobuf";
import { type Binding, bindingsOf } from "./binding.ts";
import { type BodyHeaders, createDecoder, type Decoded, type Decoder, type RequestParts } from "./decode.ts";
import { createEncoder, type EncodedResponse, type Encoder } from "./encode.ts";
import { type Checks, createChecks } from "./message-check.ts";
import type { Problem } from "./problem.ts";
import { createRouteTable, type Match, type MatchedRoute, rememberRoutes } from "./route-table.ts";

/**
 * Turns HTTP requests into messages, and messages into HTTP responses, by the `google.api.http`
 * rules of the methods.
 */
export interface Transcoder {
  /** The bindings of all rules, in the order of the services and their methods. */
  readonly bindings: readonly Binding[];
  /**
   * Finds the binding for an HTTP method and a target (path and query, not decoded). If the path is
   * known but the method is not, that is returned even if an escape can't be decoded.
   */
  match(httpMethod: string, target: string): Match;
  /**
   * The part of `decodeRequest` that checks headers, for a caller that must know before it reads
   * the body. An empty body has no type, so a problem is none where the body then proves empty.
   */
  checkMediaType(route: MatchedRoute, headers: BodyHeaders): Problem | undefined;
  /**
   * Returns the method's input message, or why the request can't become one. The headers
   * of a body that is not empty are checked before body, path and query.
   */
  decodeRequest(route: MatchedRoute, parts: RequestParts): Decoded;
  /** Returns the response that carries the method's output message. */
  encodeResponse(binding: Binding, message: Message): EncodedResponse;
}

/**
 * Reads the rules of the services and validates them: every field that a rule names exists, and no
 * two rules match the same requests. Throws an Error that names the rules at fault. `registry`
 * holds the message types for `google.protobuf.Any`; without it every Any is refused. Bindings and
 * routes of one transcoder can't be used with another.
 */
export function createTranscoder(
  services: readonly DescService[],
  { registry }: { registry?: Registry } = {},
): Transcoder {
  const bindings = services.flatMap(bindingsOf);
  const match = rememberRoutes(createRouteTable(bindings));
  const checks = createChecks(registry);
  const codecs = new Map(bindings.map((each) => [each, codecOf(each, checks, registry)]));
  const find = (binding: Binding): Codec => {
    const codec = codecs.get(binding);
    if (codec === undefined) throw new Error("The binding is another transcoder's.");
    return codec;
  };
  return {
    bindings,
    match,
    checkMediaType: (route, headers) => find(route.binding).decoder.checkMediaType(headers),
    decodeRequest: (route, parts) => find(route.binding).decoder.decode(route, parts),
    encodeResponse: (binding, message) => find(binding).encode(message),
  };
}

interface Codec {
  readonly decoder: Decoder;
  readonly encode: Encoder;
}

function codecOf(binding: Binding, checks: Checks, registry: Registry | undefined): Codec {
  return { decoder: createDecoder(binding, checks, registry), encode: createEncoder(binding, registry) };
}
