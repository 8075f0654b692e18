import type { DescService } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createContextValues,
  type HandlerContext,
  type ServiceImpl,
} from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { bounds } from "../config.ts";
import { fail, type Refusal, refusalFrom } from "../error.ts";
import type { ServiceMethods } from "../service-methods.ts";
import { type Caller, callerKey, principalKey } from "./caller.ts";
import { connectErrorFrom } from "./connect-refusal.ts";
import { withDeadline } from "./deadline.ts";
import { createRequestGate, type GateParts, tellRateOnSuccess } from "./gate.ts";

type NodeHandler = ReturnType<typeof connectNodeAdapter>;
export type NodeRequest = Parameters<NodeHandler>[0];
export type NodeResponse = Parameters<NodeHandler>[1];

/** A service and what does its work: unary methods as plain functions, or a Connect implementation with streams. */
export type ServedService = {
  readonly service: DescService;
  readonly implementation: object;
};

/** Serves plain unary methods under their service's name. */
export function served<S extends DescService>(
  service: S,
  implementation: ServiceMethods<S> | Partial<ServiceImpl<S>>,
): ServedService {
  return { service, implementation };
}

export interface RpcDoorParts extends GateParts {
  readonly services: readonly ServedService[];
  readonly messageBytesMax: number;
  /** Aborted with a refusal once the drain's time is over. */
  readonly drainSignal: AbortSignal;
  readonly callerOf: (request: NodeRequest) => Caller;
}

/** The RPC door: gRPC, gRPC-Web and Connect on the same paths, through one gate. */
export interface RpcDoor {
  /** Whether the request is for this door: its path is a method's, or it is gRPC, whatever its path. */
  takes(request: NodeRequest): boolean;
  readonly handle: NodeHandler;
}

export function createRpcDoor(parts: RpcDoorParts): RpcDoor {
  const methods = parts.services.flatMap(({ service }) => service.methods);
  const paths = new Set(methods.map((method) => `/${method.parent.typeName}/${method.name}`));
  return {
    takes: ({ url = "", headers }) =>
      paths.has(url.split("?", 1)[0] ?? "") ||
      (headers["content-type"]?.startsWith("application/grpc") ?? false),
    handle: connectNodeAdapter({
      routes(router) {
        for (const { service, implementation } of parts.services) {
          router.service(service, adapt(parts, service, implementation));
        }
      },
      contextValues: (request) => createContextValues().set(callerKey, parts.callerOf(request)),
      requestGate: createRequestGate(parts),
      fallback: refuseUnknownMethod,
      readMaxBytes: parts.messageBytesMax,
      requireConnectProtocolHeader: true,
      jsonOptions: { ignoreUnknownFields: false, alwaysEmitImplicit: true },
      shutdownSignal: parts.drainSignal,
    }),
  };
}

function adapt(parts: RpcDoorParts, service: DescService, implementation: object): object {
  const adapted: Record<string, unknown> = {};
  for (const method of service.methods) {
    const work: unknown = Reflect.get(implementation, method.localName);
    if (typeof work !== "function") continue;
    const bound: Work = (request, context) => Reflect.apply(work, implementation, [request, context]);
    adapted[method.localName] = method.methodKind === "unary" ? unary(parts, bound) : streaming(parts, bound);
  }
  return adapted;
}

type Work = (request: unknown, context: unknown) => unknown;

function unary(parts: RpcDoorParts, work: Work) {
  return async (request: unknown, context: HandlerContext) => {
    const timeoutMs = Math.min(context.timeoutMs() ?? bounds.unaryMsMax, bounds.unaryMsMax);
    try {
      const answer = await withDeadline(async (signal) => work(request, { ...callOf(context), signal }), {
        timeoutMs,
        parent: context.signal,
      });
      tellRateOnSuccess(context, parts.clock);
      return answer;
    } catch (thrown) {
      throw told(parts, context, thrown);
    }
  };
}

function streaming(parts: RpcDoorParts, work: Work) {
  return async function* (request: unknown, context: HandlerContext) {
    try {
      const answers: unknown = work(request, context);
      if (isAsyncIterable(answers)) yield* answers;
    } catch (thrown) {
      throw told(parts, context, thrown);
    }
  };
}

function callOf(context: HandlerContext) {
  return { principal: context.values.get(principalKey), requestId: context.values.get(callerKey).requestId };
}

function told(parts: RpcDoorParts, context: HandlerContext, thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  const refusal: Refusal = refusalFrom(thrown);
  parts.onRefusal(refusal, context);
  return connectErrorFrom(refusal);
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

/** A gRPC client asks for a method that is not here: gRPC's own answer (gRPC over HTTP/2, Trailers-Only). */
function refuseUnknownMethod(request: NodeRequest, response: NodeResponse): void {
  response.writeHead(200, {
    "content-type": request.headers["content-type"] ?? "application/grpc",
    "grpc-status": String(Code.Unimplemented),
    "grpc-message": fail("UNIMPLEMENTED").message,
  });
  response.end();
}
