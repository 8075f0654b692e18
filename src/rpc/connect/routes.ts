import { createRegistry, type DescFile, type Registry } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, createConnectRouter } from "@connectrpc/connect";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { hasTooManyValues, tooManyValues } from "../../transcode/json-text.ts";
import type { RpcParts } from "../rpc-parts.ts";
import type { ServedService } from "../served.ts";
import { adaptService } from "./adapt-work.ts";
import { createRequestGate } from "./request-gate.ts";

/** Connect's handler of one method, for all protocols. */
export type RpcRoute = ConnectRouter["handlers"][number];

/** Creates Connect's handlers for all methods. */
export function createRoutes(parts: RpcParts): readonly RpcRoute[] {
  const router = createConnectRouter({
    requestGate: createRequestGate(parts),
    readMaxBytes: parts.messageBytesMax,
    acceptCompression: [compressionGzip, compressionBrotli],
    requireConnectProtocolHeader: parts.needsConnectVersion,
    jsonOptions: { ...jsonOptions, registry: registryOf(parts.services) },
  });
  for (const served of parts.services) addService(router, parts, served);
  return router.handlers;
}

/** Adds each method by itself, because each has its own bound. Without work it is UNIMPLEMENTED. */
function addService(router: ConnectRouter, parts: RpcParts, served: ServedService): void {
  const adapted = adaptService(parts, served);
  for (const method of served.service.methods) {
    const work: unknown = Reflect.get(adapted, method.localName);
    const readMaxBytes = parts.policy.requestBytesMaxOf(method, parts.messageBytesMax);
    router.rpc(method, (work ?? unserved) as never, { readMaxBytes });
  }
}

function unserved(): never {
  throw new ConnectError("This method is not served here.", Code.Unimplemented);
}

/**
 * Connect uses this decoder for JSON, although its types do not mention it. Its default decoder
 * replaces bytes that are not UTF-8, so an app would run with a text that the caller did not send.
 */
const jsonOptions = {
  ignoreUnknownFields: false,
  alwaysEmitImplicit: true,
  textDecoder: { decode: decodeJson },
};

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Refuses what would take long to read, before it is read. */
function decodeJson(bytes: Uint8Array): string {
  const text = utf8.decode(bytes);
  if (hasTooManyValues(text)) throw new ConnectError(tooManyValues, Code.InvalidArgument);
  return text;
}

/**
 * Returns all messages of the services' files and their imports, for `google.protobuf.Any` in JSON.
 */
function registryOf(services: readonly ServedService[]): Registry {
  const files = new Set<DescFile>();
  const add = (file: DescFile) => {
    if (files.has(file)) return;
    files.add(file);
    file.dependencies.forEach(add);
  };
  for (const { service } of services) add(service.file);
  return createRegistry(...files);
}
