import { BinaryReader } from "@bufbuild/protobuf/wire";
import { createConnectHandler } from "./connect/connect-handler.ts";
import { createGrpcHandler } from "./grpc/grpc-handler.ts";
import type { FindRpc, RpcParts } from "./rpc-parts.ts";

/**
 * Serves gRPC, gRPC-Web and Connect on the same paths. Unary gRPC over HTTP/2, the usual call of an
 * internal service, has its own handler. Connect serves everything else.
 */
export function createRpcHandler(parts: RpcParts): FindRpc {
  boundMessageFields();
  const findGrpc = createGrpcHandler(parts);
  const findConnect = createConnectHandler(parts);
  return (request) => findGrpc(request) ?? findConnect(request);
}

/** How many fields a message may have, with those of the messages in it. */
export const messageFieldsMax = 20_000;

/**
 * From now on, this process refuses to read a message of Protobuf with more fields. Reading makes
 * an object of nearly each, all in one turn of the event loop: 1 MiB of empty ones would hold up
 * everybody else for 100 ms. Protobuf-ES has no bound for that and no hook, but it reads the
 * beginning of each field with this method, whatever the protocol and also in what it skips.
 */
function boundMessageFields(): void {
  BinaryReader.prototype.tag = boundedTag;
}

const readTag = BinaryReader.prototype.tag;

function boundedTag(this: BinaryReader & { fieldsRead?: number }): ReturnType<typeof readTag> {
  this.fieldsRead = (this.fieldsRead ?? 0) + 1;
  if (this.fieldsRead > messageFieldsMax) throw new Error(`more than ${messageFieldsMax} fields`);
  return readTag.call(this);
}
