import { ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { okStatus, statusOf } from "../../http/grpc-status.ts";
import type { HttpResponse, Refused } from "../../http/handler.ts";
import { flatHeaders } from "../../http/headers.ts";
import { refusalOfWork } from "../work-error.ts";
import type { UnaryCall } from "./unary-call.ts";

interface AnswerFacts {
  readonly requestId: string;
  readonly rateHeaders: readonly string[];
  /** Undefined if the call was refused before it began. */
  readonly call: UnaryCall | undefined;
}

export function successAnswer(
  frame: Uint8Array,
  { requestId, rateHeaders, call }: AnswerFacts,
): HttpResponse {
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
export function errorAnswer(thrown: unknown, { requestId, rateHeaders, call }: AnswerFacts): Refused {
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
