import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Code, ConnectError, createContextValues, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { credentialOf } from "../auth/policy.ts";
import { pathOf } from "../edge/http.ts";
import { refusalResponse } from "../edge/refusal-response.ts";
import { fail, type Refusal, refusalFrom } from "../error.ts";
import type { AddressAllowanceView } from "../run/admission.ts";
import { rateReportHeaders } from "../run/rate-report-headers.ts";
import { type NodeResponse as Answerable, send } from "../server/node-http.ts";
import { CallEnd } from "./call-end.ts";
import { type Caller, callerKey, callFacts, principalKey } from "./caller.ts";
import { type ConnectGateParts, createRequestGate, tellRateOnSuccess } from "./connect-gate.ts";
import { connectErrorFrom } from "./connect-refusal.ts";
import { type Entrance, entranceRefusal } from "./entrance.ts";
import {
  type NodeHandler,
  type NodeRequest,
  type NodeResponse,
  pathOfMethod,
  type ServedService,
  unaryMsMax,
  type Work,
  workOf,
} from "./served.ts";
import { authorizeMember, sessionMethods } from "./session-calls.ts";

export interface RpcDoorParts extends ConnectGateParts {
  readonly services: readonly ServedService[];
  /** Told of every call that was answered with success. */
  readonly onAnswered: () => void;
  /** Aborted with a refusal once the drain's time is over. */
  readonly drainSignal: AbortSignal;
  readonly callerOf: (request: NodeRequest) => Caller;
  /** What is told of an address where no team's limit was asked. */
  readonly allowance: Pick<AddressAllowanceView, "look">;
}

/** The RPC door: gRPC, gRPC-Web and Connect on the same paths, through one gate. */
export interface RpcDoor {
  /** Whether the request is for this door: its path is a method's, or it asks by gRPC for one that is not there. */
  takes(request: NodeRequest): boolean;
  handle(request: NodeRequest, response: Answerable): void;
}

export function createRpcDoor(parts: RpcDoorParts): RpcDoor {
  const methods = parts.services.flatMap(({ service }) => service.methods);
  const paths = new Set(methods.map(pathOfMethod));
  const sessionPaths = new Set(parts.listener === "public" ? sessionMethods(methods).map(pathOfMethod) : []);
  const { entrances, handle } = createHandler(parts);
  return {
    takes: (request) =>
      paths.has(pathAsked(request)) ||
      (grpcType.test(request.headers["content-type"] ?? "") && rpcPath.test(pathAsked(request))),
    handle(request, response) {
      const path = pathAsked(request);
      if (sessionPaths.has(path) && parts.sessions) {
        const caller = parts.callerOf(request);
        if (!parts.sessions.isOwnHost(caller.header))
          return refuse(response, fail("MISDIRECTED_REQUEST"), { caller, rateHeaders: [] });
      }
      const entrance = entrances.get(path);
      const refusal = entrance && entranceRefusal(entrance, request);
      if (!entrance || !refusal) return handle(request, response);
      const caller = parts.callerOf(request);
      parts.onRefusal(refusal, { requestId: caller.requestId, method: entrance.method });
      return refuse(response, refusal, { caller, rateHeaders: addressHeaders(parts, entrance, caller) });
    },
  };
}

const grpcType = /^application\/grpc(-web(-text)?)?(\+|;|$)/i;
const rpcPath = /^\/[^/]+\/[^/]+$/;

function pathAsked({ url = "" }: NodeRequest): string {
  return pathOf(url);
}

function createHandler(parts: RpcDoorParts): {
  readonly entrances: ReadonlyMap<string, Entrance>;
  readonly handle: NodeHandler;
} {
  const entrances = new Map<string, Entrance>();
  const handle = connectNodeAdapter({
    routes(router) {
      for (const { service, implementation } of parts.services) {
        router.service(service, adapt(parts, service, implementation));
      }
      for (const entrance of router.handlers) entrances.set(entrance.requestPath, entrance);
    },
    contextValues: (request) => createContextValues().set(callerKey, parts.callerOf(request)),
    requestGate: createRequestGate(parts),
    fallback: refuseUnknownMethod,
    readMaxBytes: parts.messageBytesMax,
    requireConnectProtocolHeader: true,
    jsonOptions,
    shutdownSignal: parts.drainSignal,
  });
  return { entrances, handle };
}

/**
 * Connect reads JSON with the decoder that it is given here, though its types don't say so. Its own would put another
 * character in the place of bytes that are not UTF-8, and run the app with a text that nobody sent.
 */
const jsonOptions = {
  ignoreUnknownFields: false,
  alwaysEmitImplicit: true,
  textDecoder: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }),
};

function adapt(parts: RpcDoorParts, service: DescService, implementation: object): object {
  const adapted: Record<string, unknown> = {};
  for (const method of service.methods) {
    const work = workOf(implementation, method);
    if (!work) continue;
    const adapt = method.methodKind === "unary" ? unary : streaming;
    adapted[method.localName] = adapt(parts, method, work);
  }
  return adapted;
}

function unary(parts: RpcDoorParts, method: DescMethod, work: Work) {
  return async (request: unknown, context: HandlerContext) => {
    const timeoutMs = Math.min(context.timeoutMs() ?? unaryMsMax, unaryMsMax);
    try {
      const call = callOf(context);
      const end = new CallEnd(() => context.signal);
      end.begin();
      const authorized = async () => {
        await authorizeMember(parts.sessions, method, { principal: call.principal, request });
        return work(request, { ...call, signal: end.signal });
      };
      end.heedCaller();
      const answer = await end.within(authorized(), timeoutMs);
      tellRateOnSuccess(context, parts.clock);
      parts.onAnswered();
      return answer;
    } catch (thrown) {
      throw told(parts, context, thrown);
    }
  };
}

function streaming(parts: RpcDoorParts, method: DescMethod, work: Work) {
  return async function* (request: unknown, context: HandlerContext) {
    try {
      const call = callOf(context);
      await authorizeMember(parts.sessions, method, { principal: call.principal, request });
      const answers: unknown = work(request, { ...context, ...call });
      if (isAsyncIterable(answers)) yield* answers;
      parts.onAnswered();
    } catch (thrown) {
      throw told(parts, context, thrown);
    }
  };
}

function callOf(context: HandlerContext) {
  return {
    principal: context.values.get(principalKey),
    requestId: context.values.get(callerKey).requestId,
    setCookie: (cookie: string) => context.responseHeader.append("set-cookie", cookie),
  };
}

function told(parts: RpcDoorParts, context: HandlerContext, thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  const refusal: Refusal = refusalFrom(thrown);
  parts.onRefusal(refusal, callFacts(context));
  return connectErrorFrom(refusal);
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

/** Who calls with a key is told of a limit by every answer, also by one that asked for no key. */
function addressHeaders(
  { listener, allowance, clock }: RpcDoorParts,
  { method }: Entrance,
  { address }: Caller,
) {
  const decision = credentialOf(method, listener) === "api_key" ? allowance.look(address) : undefined;
  return rateReportHeaders(decision && { policy: "address", decision }, clock);
}

/** Before Connect, which has no words for it: the same answer as over REST. */
function refuse(
  response: Answerable,
  refusal: Refusal,
  { caller, rateHeaders }: { caller: Caller; rateHeaders: readonly string[] },
): void {
  const { header, requestId } = caller;
  send(response, refusalResponse(refusal, { requestId, accept: header("accept"), rateHeaders }));
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
