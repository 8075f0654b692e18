import { createConnectHandler } from "./connect/connect-handler.ts";
import { createGrpcHandler } from "./grpc/grpc-handler.ts";
import type { FindRpc, RpcParts } from "./rpc-parts.ts";

/**
 * Serves gRPC, gRPC-Web and Connect on the same paths. Unary gRPC over HTTP/2, the usual call of an
 * internal service, has its own handler. Connect serves everything else.
 */
export function createRpcHandler(parts: RpcParts): FindRpc {
  const findGrpc = createGrpcHandler(parts);
  const findConnect = createConnectHandler(parts);
  return (request) => findGrpc(request) ?? findConnect(request);
}
