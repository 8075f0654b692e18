import { setTimeout as sleep } from "node:timers/promises";
import { create, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { type Any, anyPack } from "@bufbuild/protobuf/wkt";
import { type Code, ConnectError } from "@connectrpc/connect";
import type { Call } from "#src/auth/principal.ts";
import type { ServiceMethods } from "#src/auth/service-methods.ts";
import {
  BidiStreamRequestSchema,
  ClientStreamRequestSchema,
  ConformancePayload_RequestInfoSchema,
  type ConformancePayloadSchema,
  type ConformanceService,
  type Error as ErrorDefinition,
  type Header,
  IdempotentUnaryRequestSchema,
  ServerStreamRequestSchema,
  type StreamResponseDefinition,
  UnaryRequestSchema,
  type UnaryResponseDefinition,
} from "./gen/connectrpc/conformance/v1/service_pb.ts";

/**
 * The service that the conformance runner calls, as its proto describes it: each request says how
 * to answer it, and each answer describes the request that arrived. `Unimplemented` is left out
 * because the runner expects that it is not implemented.
 */
export const conformanceService: Omit<ServiceMethods<typeof ConformanceService>, "unimplemented"> = {
  unary: (request, call) =>
    answerOnce(request.responseDefinition, call, [anyPack(UnaryRequestSchema, request)]),

  idempotentUnary: (request, call) =>
    answerOnce(request.responseDefinition, call, [anyPack(IdempotentUnaryRequestSchema, request)]),

  async clientStream(requests, call) {
    const all: MessageShape<typeof ClientStreamRequestSchema>[] = [];
    for await (const request of requests) all.push(request);
    return answerOnce(all[0]?.responseDefinition, call, packed(ClientStreamRequestSchema, all));
  },

  async *serverStream(request, call) {
    const { responseDefinition } = request;
    setMetadata(responseDefinition, call);
    yield* answerMany(responseDefinition, call, packed(ServerStreamRequestSchema, [request]));
  },

  async *bidiStream(requests, call) {
    let definition: StreamResponseDefinition | undefined;
    let isFullDuplex = false;
    let sent = 0;
    const all: MessageShape<typeof BidiStreamRequestSchema>[] = [];
    for await (const request of requests) {
      if (all.push(request) === 1) {
        definition = request.responseDefinition;
        isFullDuplex = request.fullDuplex;
        setMetadata(definition, call);
      }
      if (!isFullDuplex) continue;
      const data = definition?.responseData[sent];
      if (data === undefined) break;
      await sleep(definition?.responseDelayMs);
      const last = packed(BidiStreamRequestSchema, [request]);
      const requestInfo = sent === 0 ? infoOf(call, last) : { requests: last };
      yield { payload: { data, requestInfo } };
      sent += 1;
    }
    yield* answerMany(definition, call, packed(BidiStreamRequestSchema, all), sent);
  },
};

type Payload = { readonly payload: MessageInitShape<typeof ConformancePayloadSchema> };

async function answerOnce(
  definition: UnaryResponseDefinition | undefined,
  call: Call,
  requests: Any[],
): Promise<Payload> {
  setMetadata(definition, call);
  const requestInfo = infoOf(call, requests);
  await sleep(definition?.responseDelayMs);
  const { response } = definition ?? {};
  if (response?.case === "error") throw errorOf(response.value, requestInfo);
  return { payload: { requestInfo, ...(response?.case === "responseData" && { data: response.value }) } };
}

/**
 * Returns the definition's answers from number `from` on, and then its error. Only the first answer
 * describes the request.
 */
async function* answerMany(
  definition: StreamResponseDefinition | undefined,
  call: Call,
  requests: Any[],
  from = 0,
): AsyncGenerator<Payload> {
  const { responseData = [], responseDelayMs = 0, error } = definition ?? {};
  const requestInfo = infoOf(call, requests);
  for (const [index, data] of responseData.entries()) {
    if (index < from) continue;
    await sleep(responseDelayMs);
    yield { payload: { data, ...(index === 0 && { requestInfo }) } };
  }
  if (error) throw errorOf(error, responseData.length === 0 ? requestInfo : undefined);
}

function setMetadata(
  definition: { responseHeaders: Header[]; responseTrailers: Header[] } | undefined,
  call: Call,
): void {
  for (const { name, value } of definition?.responseHeaders ?? []) {
    for (const one of value) call.responseHeaders.append(name, one);
  }
  for (const { name, value } of definition?.responseTrailers ?? []) {
    for (const one of value) call.responseTrailers.append(name, one);
  }
}

type RequestInfo = MessageShape<typeof ConformancePayload_RequestInfoSchema>;

function infoOf(call: Call, requests: Any[]): RequestInfo {
  const timeoutMs = call.timeoutMs();
  return create(ConformancePayload_RequestInfoSchema, {
    requests,
    requestHeaders: Array.from(call.requestHeaders, ([name, value]) => ({ name, value: value.split(", ") })),
    ...(timeoutMs !== undefined && { timeoutMs: BigInt(Math.trunc(timeoutMs)) }),
  });
}

function errorOf({ code, message = "", details }: ErrorDefinition, requestInfo: RequestInfo | undefined) {
  const own = details.map(({ typeUrl, value }) => ({
    type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1),
    value,
  }));
  const desc = ConformancePayload_RequestInfoSchema;
  const added = requestInfo ? [{ desc, value: requestInfo }] : [];
  // The proto's codes are Connect's codes, and 0, which no error has.
  const error = new ConnectError(message, code as number as Code, undefined, added);
  error.details.unshift(...own);
  return error;
}

function packed<Desc extends DescMessage>(desc: Desc, requests: readonly MessageShape<Desc>[]): Any[] {
  return requests.map((request) => anyPack(desc, request));
}
