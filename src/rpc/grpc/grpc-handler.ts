/** Plain unary gRPC without Connect: from the request to the answer with its trailers. */

import type { DescMethod } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import type { Answer, HttpRequest, HttpResponse, Mount, Refused } from "../../http/handler.ts";
import { flatHeaders } from "../../http/headers.ts";
import { okStatus, statusOf } from "../../http/refusal-response.ts";
import { headerOf, type RequestHead } from "../../http/request-head.ts";
import { rateReportHeaders } from "../../limit/rate-limit-headers.ts";
import type { RpcPolicy } from "../authenticate.ts";
import type { FindRpc, RpcParts } from "../rpc-parts.ts";
import { pathOfMethod, type Rpc, refusalOfWork } from "../served.ts";
import { UnaryCall } from "./unary-call.ts";

/**
 * Serves the usual call of an internal service: unary gRPC over HTTP/2, not compressed. Connect's
 * handler is made for streams of any protocol, and costs a unary call many times more. Methods that
 * take a session are left to Connect, because their callers are browsers.
 */
export function createGrpcHandler(parts: RpcParts): FindRpc {
  const mounts = new Map<string, Mount>();
  for (const rpc of parts.rpcs) {
    const { method } = rpc;
    if (method.methodKind !== "unary" || !isForServices(method, parts.policy)) continue;
    const handler = (request: HttpRequest) => answer(parts, rpc, request);
    mounts.set(pathOfMethod(method), { handler, entry: "grpc", refusalForm: "grpc" });
  }
  return (head) => (isPlainGrpc(head) ? mounts.get(head.target) : undefined);
}

function isForServices(method: DescMethod, policy: RpcPolicy): boolean {
  const credential = policy.credentialOf(method);
  return credential !== undefined && !credential.endsWith("session");
}

function isPlainGrpc(head: RequestHead): boolean {
  if (head.httpVersion !== "2.0" || head.method !== "POST") return false;
  const type = headerOf(head, "content-type");
  if (type !== "application/grpc" && type !== "application/grpc+proto") return false;
  const encoding = headerOf(head, "grpc-encoding");
  return encoding === undefined || encoding === "identity";
}

async function answer(parts: RpcParts, rpc: Rpc, request: HttpRequest): Promise<Answer> {
  const { clock } = parts;
  const { requestId } = request;
  const result = await parts.authenticate(rpc.method, request);
  if (result.kind === "refused") {
    const rateHeaders = rateReportHeaders(result.rate, clock);
    return errorAnswer(result.refusal, { requestId, rateHeaders, call: undefined });
  }
  const { principal, rateNow } = result;
  const call = new UnaryCall(parts, rpc, { request, principal });
  const facts = () => ({ requestId, rateHeaders: rateReportHeaders(rateNow?.(), clock), call });
  try {
    const frame = await call.run();
    return successAnswer(frame, facts());
  } catch (thrown) {
    return errorAnswer(thrown, facts());
  }
}

interface AnswerFacts {
  readonly requestId: string;
  readonly rateHeaders: readonly string[];
  /** Undefined if the call was refused before it began. */
  readonly call: UnaryCall | undefined;
}

function successAnswer(frame: Uint8Array, { requestId, rateHeaders, call }: AnswerFacts): HttpResponse {
  const headers = ["content-type", contentType, "x-request-id", requestId, ...rateHeaders];
  const set = call?.setMetadata;
  if (set === undefined) return { status: 200, headers, body: frame, trailers: okStatus };
  headers.push(...flatHeaders(set.headers));
  return { status: 200, headers, body: frame, trailers: [...flatHeaders(set.trailers), ...okStatus] };
}

/**
 * Puts the rate limit and the status into the trailers, where clients expect them for a failed
 * call.
 */
function errorAnswer(thrown: unknown, { requestId, rateHeaders, call }: AnswerFacts): Refused {
  const refusal = refusalOfWork(thrown);
  const set = call?.setMetadata;
  if (set === undefined && !(thrown instanceof ConnectError)) return { refusal, headers: rateHeaders };
  const status = thrown instanceof ConnectError ? foreignStatus(thrown) : statusOf(refusal);
  const response = {
    status: 200,
    headers: ["content-type", contentType, ...flatHeaders(set?.headers)],
    body: "",
    trailers: ["x-request-id", requestId, ...rateHeaders, ...flatHeaders(set?.trailers), ...status],
  };
  return { refusal, response };
}

function foreignStatus(error: ConnectError): string[] {
  const trailers = new Headers();
  setTrailerStatus(trailers, error);
  return flatHeaders(trailers);
}

const contentType = "application/grpc+proto";
