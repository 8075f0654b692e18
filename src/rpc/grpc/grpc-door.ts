import type { DescMethod, DescMethodUnary } from "@bufbuild/protobuf";
import { credentialOf, type Listener } from "../../auth/policy.ts";
import type { Clock } from "../../clock.ts";
import type { HttpDoor, HttpRequest, HttpResponse } from "../../edge/http.ts";
import { type Refusal, refusalFrom } from "../../error.ts";
import type { RateReport } from "../../run/admission.ts";
import { rateReportHeaders } from "../../run/rate-report-headers.ts";
import type { Gate, Passage } from "../gate.ts";
import type { OnRefusal } from "../on-refusal.ts";
import { type NodeRequest, pathOfMethod, type ServedService, workOf } from "../served.ts";
import { okStatus, statusOf } from "./status.ts";
import { UnaryCall, type UnaryMethod } from "./unary-call.ts";

export interface GrpcDoorParts {
  readonly services: readonly ServedService[];
  readonly listener: Listener;
  readonly gate: Gate;
  readonly clock: Clock;
  readonly messageBytesMax: number;
  readonly onRefusal: OnRefusal;
  /** Told of every call that was answered with success. */
  readonly onAnswered: () => void;
}

/** The door for the usual call of an internal service: unary gRPC over HTTP/2, not compressed. */
export interface GrpcDoor {
  /** Whether the request is such a call. Any other is for the RPC door, which knows all protocols. */
  takes(request: NodeRequest): boolean;
  readonly door: HttpDoor;
}

/**
 * Connect's handler is made for streams of any protocol, and a unary call pays for that many times what it needs. This
 * door is a function from a request to a response, as the REST door is, through the same gate to the same methods. A
 * method that takes a session is left to Connect: its callers are browsers.
 */
export function createGrpcDoor(parts: GrpcDoorParts): GrpcDoor {
  const calls = new Map<string, UnaryMethod>();
  for (const { service, implementation } of parts.services) {
    for (const method of service.methods) {
      const work = workOf(implementation, method);
      if (!work || !isUnary(method) || !isForServices(method, parts.listener)) continue;
      calls.set(pathOfMethod(method), { method, work });
    }
  }
  return {
    takes: (request) => isPlainGrpc(request) && calls.has(request.url ?? ""),
    door(request) {
      const call = calls.get(request.target);
      if (!call) throw new Error(`no unary method at ${request.target}`);
      const passage = parts.gate(call.method, request);
      return passage instanceof Promise
        ? enterLater(parts, call, { request, passage })
        : enter(parts, call, { request, passage });
    },
  };
}

function isUnary(method: DescMethod): method is DescMethodUnary {
  return method.methodKind === "unary";
}

function isForServices(method: DescMethod, listener: Listener): boolean {
  const credential = credentialOf(method, listener);
  return credential === "api_key" || credential === "service";
}

function isPlainGrpc({ httpVersionMajor, method, headers }: NodeRequest): boolean {
  const type = headers["content-type"];
  const encoding = headers["grpc-encoding"];
  return (
    httpVersionMajor === 2 &&
    method === "POST" &&
    (type === "application/grpc" || type === "application/grpc+proto") &&
    (encoding === undefined || encoding === "identity")
  );
}

async function enterLater(
  parts: GrpcDoorParts,
  call: UnaryMethod,
  { request, passage }: { request: HttpRequest; passage: Promise<Passage> },
): Promise<HttpResponse> {
  return enter(parts, call, { request, passage: await passage });
}

function enter(
  parts: GrpcDoorParts,
  unary: UnaryMethod,
  { request, passage }: { request: HttpRequest; passage: Passage },
): HttpResponse | Promise<HttpResponse> {
  const { method } = unary;
  const refused = (refusal: Refusal, rate: RateReport | undefined) => {
    parts.onRefusal(refusal, { requestId: request.requestId, method });
    return refusalAnswer(parts, request, { refusal, rate });
  };
  if (passage.kind === "refused") return refused(passage.refusal, passage.rate);
  const answered = (frame: Uint8Array) => {
    parts.onAnswered();
    return answer(parts, request, { frame, rate: passage.rateNow?.() });
  };
  const thrown = (cause: unknown) => refused(refusalFrom(cause), passage.rateNow?.());
  try {
    const { principal } = passage;
    const frame = new UnaryCall(unary, { request, principal, messageBytesMax: parts.messageBytesMax }).run();
    return frame instanceof Promise ? frame.then(answered).catch(thrown) : answered(frame);
  } catch (cause) {
    return thrown(cause);
  }
}

function answer(
  { clock }: GrpcDoorParts,
  { requestId }: HttpRequest,
  { frame, rate }: { frame: Uint8Array; rate: RateReport | undefined },
): HttpResponse {
  const headers = ["content-type", contentType, "x-request-id", requestId, ...rateReportHeaders(rate, clock)];
  return { status: 200, headers, body: frame, trailers: okStatus };
}

/** Numbers and status alike are trailers: that is where clients look for what came of a call. */
function refusalAnswer(
  { clock }: GrpcDoorParts,
  { requestId }: HttpRequest,
  { refusal, rate }: { refusal: Refusal; rate: RateReport | undefined },
): HttpResponse {
  const headers = ["content-type", contentType, "x-request-id", requestId];
  return {
    status: 200,
    headers,
    body: "",
    trailers: [...rateReportHeaders(rate, clock), ...statusOf(refusal)],
  };
}

const contentType = "application/grpc+proto";
