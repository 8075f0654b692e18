import type { HttpRequest, Mount } from "../../http/handler.ts";
import { headerOf, pathOf, queryOf } from "../../http/request-head.ts";
import { rateReportHeaders } from "../../limit/rate-limit-headers.ts";
import type { Entry } from "../../metrics/metrics.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import { readsSession } from "../authenticate.ts";
import type { FindRpc, RpcParts } from "../rpc-parts.ts";
import { callRoute } from "./call-route.ts";
import { createRoutes, type RpcRoute } from "./routes.ts";

/**
 * Serves gRPC, gRPC-Web and Connect with Connect's universal handlers, which take a request value
 * and return a response value. Unknown methods are refused in the form of the client's protocol.
 */
export function createConnectHandler(parts: RpcParts): FindRpc {
  const mounts = new Map(createRoutes(parts).map((route) => [route.requestPath, mountsOf(parts, route)]));
  return (head) => {
    const path = pathOf(head.target);
    const isGrpc = grpcType.test(headerOf(head, "content-type") ?? "");
    const mount = mounts.get(path);
    if (mount) return isGrpc ? mount.grpc : mount.connect;
    if (isGrpc) return twoParts.test(path) ? unknownToGrpc : undefined;
    return methodPath.test(path) ? unknownToConnect : undefined;
  };
}

const grpcType = /^application\/grpc(-web(-text)?)?(\+|;|$)/i;
const twoParts = /^\/[^/]+\/[^/]+$/;
/** A method of a service in a package, such as `/keyrun.v1.RunService/RunApp`. */
const methodPath = /^\/[a-z_]\w*(\.[a-z_]\w*)+\/[a-z_]\w*$/i;

const unknownToGrpc: Mount = {
  handler: () => ({ refusal: fail("UNIMPLEMENTED") }),
  entry: "grpc",
  refusalForm: "grpc",
};
const unknownToConnect: Mount = {
  handler: () => ({ refusal: fail("NOT_FOUND", { problem: "This method is not served here." }) }),
  entry: "connect",
  refusalForm: "json_for_rpc",
};

/** Mounts one method for each entry. Requests that no protocol accepts are refused as over REST. */
function mountsOf(parts: RpcParts, route: RpcRoute): Record<"grpc" | "connect", Mount> {
  const { method } = route;
  const readsCookie = readsSession(parts.policy, method);
  const mount = (entry: Entry): Mount => ({
    entry,
    refusalForm: "json_for_rpc",
    handler(request) {
      const isForeignHost =
        readsCookie && parts.sessions?.isOwnHost((name) => request.header(name)) === false;
      if (isForeignHost) return { refusal: fail("MISDIRECTED_REQUEST") };
      const refusal = routeRefusal(route, request);
      if (refusal) return { refusal, headers: addressHeaders(parts, route, request) };
      const onRefusal = (late: Refusal) => parts.outcomes.refused(late, entry, request);
      return callRoute(route, request, { onRefusal, messageBytesMax: parts.messageBytesMax });
    },
  });
  return { grpc: mount("grpc"), connect: mount("connect") };
}

/**
 * Returns the refusal of a request that no protocol accepts; undefined if a protocol accepts it.
 * Connect itself would respond with a status and no body.
 */
function routeRefusal(route: RpcRoute, request: HttpRequest): Refusal | undefined {
  const { allowedMethods, method } = route;
  // HTTP/1.0 allows a request without a host; an RPC needs one.
  if (request.httpVersion === "1.0" && request.header("host") === undefined) return fail("MALFORMED_REQUEST");
  // Its answers begin before its messages end.
  if (method.methodKind === "bidi_streaming" && request.httpVersion.startsWith("1.")) {
    return fail("UNIMPLEMENTED", { problem: "This method needs HTTP/2." });
  }
  if (!allowedMethods.includes(request.method)) {
    return fail("METHOD_NOT_ALLOWED", { metadata: { allow: allowedMethods.join(", ") } });
  }
  if (request.method === "GET") return encodingRefusal(request);
  const type = request.header("content-type") ?? "";
  if (route.supportedContentType(type) && !textType.test(type)) return undefined;
  // In Connect's own protocol a method has one of two kinds: https://connectrpc.com/docs/protocol/
  const isUnary = method.methodKind === "unary";
  const connect = isUnary ? ["application/json", "application/proto"] : ["application/connect+json"];
  const types = [...connect, "application/grpc-web", "application/grpc"];
  return fail("UNSUPPORTED_MEDIA_TYPE", {
    problem: `Send a Content-Type that is one of: ${types.map((one) => `\`${one}\``).join(", ")}.`,
    metadata: { accept: types.join(", ") },
  });
}

/** A Connect GET has its message in the query, and so no Content-Type. */
function encodingRefusal({ target }: HttpRequest): Refusal | undefined {
  const encoding = new URLSearchParams(queryOf(target)).get("encoding");
  if (encoding === "json" || encoding === "proto") return undefined;
  return fail("UNSUPPORTED_MEDIA_TYPE", {
    problem: "Name the encoding of the message in the query: `encoding=json` or `encoding=proto`.",
  });
}

/** gRPC-Web in base64: Connect accepts the type, and then responds with 415 and no body. */
const textType = /^application\/grpc-web-text/i;

/** Every response of a method that spends of a limit has its headers, even if no key was read. */
function addressHeaders({ policy, allowance, clock }: RpcParts, route: RpcRoute, request: HttpRequest) {
  const credential = policy.credentialOf(route.method);
  const isLimited = credential === "api_key" || credential === "none";
  const decision = isLimited ? allowance.snapshot(request.address) : undefined;
  return rateReportHeaders(decision && { policy: "address", decision }, clock);
}
