import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { create, createFileRegistry, type DescMessage, type Message } from "@bufbuild/protobuf";
import { type Any, anyPack } from "@bufbuild/protobuf/wkt";
import { type Code, ConnectError } from "@connectrpc/connect";
import type { Call } from "#src/auth/principal.ts";
import { headersOf } from "#src/http/headers.ts";
import { bufImage } from "../harness/buf-image.ts";

const types = createFileRegistry(await bufImage(join(import.meta.dirname, "proto")));

/** A message of the conformance protos, by its short name. */
export function messageType(name: string): DescMessage {
  const type = types.getMessage(`connectrpc.conformance.v1.${name}`);
  if (!type) throw new Error(`no message ${name}`);
  return type;
}

export const ConformanceService = types.getService("connectrpc.conformance.v1.ConformanceService")!;

interface Header {
  readonly name: string;
  readonly value: readonly string[];
}

interface ErrorDefinition {
  readonly code: number;
  readonly message?: string;
  readonly details: readonly Any[];
}

interface Definition {
  readonly responseHeaders: readonly Header[];
  readonly responseTrailers: readonly Header[];
  readonly responseDelayMs: number;
}

/** What `service.proto` calls UnaryResponseDefinition. */
interface OneAnswer extends Definition {
  readonly response:
    | { readonly case: "responseData"; readonly value: Uint8Array }
    | { readonly case: "error"; readonly value: ErrorDefinition }
    | { readonly case: undefined };
}

/** What `service.proto` calls StreamResponseDefinition. */
interface ManyAnswers extends Definition {
  readonly responseData: readonly Uint8Array[];
  readonly error?: ErrorDefinition;
}

type Request<Answers> = Message & { readonly responseDefinition?: Answers; readonly fullDuplex?: boolean };

/**
 * The service that the conformance runner calls, as its proto describes it: each request says how
 * to answer it, and each answer describes the request that arrived. `Unimplemented` is left out
 * because the runner expects that it is not implemented.
 */
export const conformanceService = {
  unary: (request: Request<OneAnswer>, call: Call) =>
    answerOnce(request.responseDefinition, call, packed([request])),

  idempotentUnary: (request: Request<OneAnswer>, call: Call) =>
    answerOnce(request.responseDefinition, call, packed([request])),

  async clientStream(requests: AsyncIterable<Request<OneAnswer>>, call: Call) {
    const all: Request<OneAnswer>[] = [];
    for await (const request of requests) all.push(request);
    return answerOnce(all[0]?.responseDefinition, call, packed(all));
  },

  async *serverStream(request: Request<ManyAnswers>, call: Call) {
    const { responseDefinition } = request;
    setMetadata(responseDefinition, call);
    yield* answerMany(responseDefinition, call, packed([request]));
  },

  async *bidiStream(requests: AsyncIterable<Request<ManyAnswers>>, call: Call) {
    let definition: ManyAnswers | undefined;
    let isFullDuplex = false;
    let sent = 0;
    const all: Request<ManyAnswers>[] = [];
    for await (const request of requests) {
      if (all.push(request) === 1) {
        definition = request.responseDefinition;
        isFullDuplex = request.fullDuplex ?? false;
        setMetadata(definition, call);
      }
      if (!isFullDuplex) continue;
      const data = definition?.responseData[sent];
      if (data === undefined) break;
      await sleep(definition?.responseDelayMs);
      const last = packed([request]);
      const requestInfo = sent === 0 ? infoOf(call, last) : { requests: last };
      yield { payload: { data, requestInfo } };
      sent += 1;
    }
    yield* answerMany(definition, call, packed(all), sent);
  },
};

type Payload = { readonly payload: { data?: Uint8Array; requestInfo?: Message | { requests: Any[] } } };

async function answerOnce(definition: OneAnswer | undefined, call: Call, requests: Any[]): Promise<Payload> {
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
  definition: ManyAnswers | undefined,
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

function setMetadata(definition: Definition | undefined, call: Call): void {
  for (const { name, value } of definition?.responseHeaders ?? []) {
    for (const one of value) call.responseHeaders.append(name, one);
  }
  for (const { name, value } of definition?.responseTrailers ?? []) {
    for (const one of value) call.responseTrailers.append(name, one);
  }
}

const requestInfoType = messageType("ConformancePayload.RequestInfo");

function infoOf(call: Call, requests: Any[]): Message {
  const timeoutMs = call.timeoutMs();
  return create(requestInfoType, {
    requests,
    requestHeaders: Array.from(headersOf(call.http.rawHeaders), ([name, value]) => ({
      name,
      value: value.split(", "),
    })),
    ...(timeoutMs !== undefined && { timeoutMs: BigInt(Math.trunc(timeoutMs)) }),
  });
}

function errorOf({ code, message = "", details }: ErrorDefinition, requestInfo: Message | undefined) {
  const own = details.map(({ typeUrl, value }) => ({
    type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1),
    value,
  }));
  const added = requestInfo ? [{ desc: requestInfoType, value: requestInfo }] : [];
  // The proto's codes are Connect's codes, and 0, which no error has.
  const error = new ConnectError(message, code as number as Code, undefined, added);
  error.details.unshift(...own);
  return error;
}

function packed(requests: readonly Message[]): Any[] {
  return requests.map((request) => anyPack(types.getMessage(request.$typeName)!, request));
}
