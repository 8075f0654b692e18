import type { ConnectRouter } from "@connectrpc/connect";
import { fail, type Refusal } from "../error.ts";
import type { NodeRequest } from "./served.ts";

/** One method's place, for every protocol that it is served by. */
export type Entrance = ConnectRouter["handlers"][number];

/**
 * Why a request can't enter by any protocol, in a refusal that says what would: Connect has a bare status for it.
 * Undefined where some protocol takes it.
 */
export function entranceRefusal(
  entrance: Entrance,
  { method = "", headers }: NodeRequest,
): Refusal | undefined {
  const { allowedMethods } = entrance;
  if (!allowedMethods.includes(method)) {
    return fail("METHOD_NOT_ALLOWED", { metadata: { allow: allowedMethods.join(", ") } });
  }
  const type = headers["content-type"] ?? "";
  if (entrance.supportedContentType(type) && !textType.test(type)) return undefined;
  // By Connect's own protocol a method has one kind of the two: https://connectrpc.com/docs/protocol/
  const isUnary = entrance.method.methodKind === "unary";
  const connect = isUnary ? ["application/json", "application/proto"] : ["application/connect+json"];
  const types = [...connect, "application/grpc-web", "application/grpc"].map((one) => `\`${one}\``);
  return fail("UNSUPPORTED_MEDIA_TYPE", {
    problem: `Send a Content-Type that is one of: ${types.join(", ")}.`,
  });
}

/** gRPC-Web in base64: Connect knows the type, and serves it with a bare 415. */
const textType = /^application\/grpc-web-text/i;
