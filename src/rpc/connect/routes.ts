/** The methods of our services in the form that Connect calls. */

import { createRegistry, type DescFile, type DescMethod, type Registry } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  type HandlerContext,
} from "@connectrpc/connect";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { type Checks, createChecks } from "#transcode/message-check.ts";
import type { Call, Principal } from "../../auth/principal.ts";
import { untilEnded } from "../../http/handler.ts";
import { fail } from "../../refusal/refusal.ts";
import { authorizeCaller } from "../authenticate.ts";
import type { CallDeadline } from "../call-deadline.ts";
import type { RpcParts } from "../rpc-parts.ts";
import { refusalOfWork, type ServedService, unaryMsMaxOf, type Work, workOf } from "../served.ts";
import { createAuthenticateRequest, rateOnRefusal, rateOnSuccess } from "./authenticate-request.ts";
import { callOf, callStateOf, deadlineOf, entryOf } from "./call-state.ts";
import {
  checkedJson,
  connectErrorFrom,
  countRefusal,
  framingRefusal,
  isSettled,
  settle,
} from "./connect-refusal.ts";

/** Connect's handler of one method, for all protocols. */
export type RpcRoute = ConnectRouter["handlers"][number];

/** Creates Connect's handlers for all methods. */
export function createRoutes(parts: RpcParts): readonly RpcRoute[] {
  const router = createConnectRouter({
    requestGate: createAuthenticateRequest(parts),
    readMaxBytes: parts.messageBytesMax,
    acceptCompression: [compressionGzip, compressionBrotli],
    requireConnectProtocolHeader: parts.needsConnectVersion,
  });
  const registry = registryOf(parts.services);
  const checks = createChecks(registry);
  for (const served of parts.services) addService(router, parts, { served, registry, checks });
  return router.handlers;
}

/**
 * Adds each method by itself, because each has its own bound and messages. Without work it is
 * UNIMPLEMENTED.
 */
function addService(
  router: ConnectRouter,
  parts: RpcParts,
  { served, registry, checks }: { served: ServedService; registry: Registry; checks: Checks },
): void {
  const adapted = adaptService(parts, served);
  for (const method of served.service.methods) {
    const work: unknown = Reflect.get(adapted, method.localName);
    const readMaxBytes = parts.policy.requestBytesMaxOf(method, parts.messageBytesMax);
    const jsonOptions = { ...writtenInFull, registry, textDecoder: jsonDecoderOf(method, checks) };
    router.rpc(method, (work ?? unserved) as never, { readMaxBytes, jsonOptions });
  }
}

function unserved(): never {
  throw new ConnectError("This method is not served here.", Code.Unimplemented);
}

const writtenInFull = { ignoreUnknownFields: false, alwaysEmitImplicit: true };

/**
 * Connect uses this decoder for JSON, although its types do not mention it. Its default decoder
 * replaces bytes that are not UTF-8, so an app would run with a text that the caller did not send.
 * The JSON is checked here as it is over REST, because the errors of protobuf-es quote values, and
 * not all of them name a field.
 */
function jsonDecoderOf({ input }: DescMethod, checks: Checks) {
  const check = checks.ofMessage(input);
  return { decode: (bytes: Uint8Array) => checkedJson(bytes, check) };
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

/** Returns the implementation in the form that Connect calls. */
function adaptService(parts: RpcParts, served: ServedService): object {
  const adapted: Record<string, unknown> = {};
  for (const method of served.service.methods) {
    const work = workOf(served.implementation, method);
    const unaryMsMax = unaryMsMaxOf(served, method);
    if (work) adapted[method.localName] = adapt(parts, method, { work, unaryMsMax });
  }
  return adapted;
}

interface TimedWork {
  readonly work: Work;
  readonly unaryMsMax: number;
}

function adapt(parts: RpcParts, method: DescMethod, timed: TimedWork) {
  const { methodKind } = method;
  const answersOnce = methodKind === "unary" || methodKind === "client_streaming";
  return answersOnce ? once(parts, method, timed) : streamed(parts, method, timed.work);
}

/** The call ends at its deadline or when its caller disconnects, even if the work does not end. */
function once(parts: RpcParts, method: DescMethod, { work, unaryMsMax }: TimedWork) {
  const msMax = method.methodKind === "unary" ? unaryMsMax : undefined;
  return async (input: unknown, context: HandlerContext) => {
    try {
      const deadline = begin(context);
      const call = callOf(context, deadline);
      const timeoutMs = msMax && Math.max(0, Math.min(context.timeoutMs() ?? msMax, msMax));
      const answering = async () => work(await authorized(parts, context, { input, call }), call);
      const answer = await deadline.within(answering(), timeoutMs);
      rateOnSuccess(context, parts.clock);
      parts.outcomes.succeeded(entryOf(context), callStateOf(context).request);
      return answer;
    } catch (thrown) {
      throw answerable(parts, context, thrown);
    }
  };
}

function streamed(parts: RpcParts, method: DescMethod, work: Work) {
  return async function* (input: unknown, context: HandlerContext) {
    let isCounted = false;
    callStateOf(context).request.isStream = true;
    try {
      const deadline = begin(context);
      const call = callOf(context, deadline);
      const answers: unknown = work(await authorized(parts, context, { input, call }), call);
      if (!isAsyncIterable(answers)) throw new Error(`${method.toString()} answers with no stream`);
      let isFirst = true;
      for await (const answer of untilEnded(answers, deadline.signal)) {
        if (isFirst) rateOnSuccess(context, parts.clock);
        isFirst = false;
        yield answer;
      }
      if (isFirst) rateOnSuccess(context, parts.clock);
      isCounted = true;
      parts.outcomes.succeeded(entryOf(context), callStateOf(context).request);
    } catch (thrown) {
      isCounted = true;
      throw answerable(parts, context, thrown);
    } finally {
      // Connect returned the stream early: its caller takes no more.
      if (!isCounted) {
        parts.outcomes.refused(fail("CANCELLED"), entryOf(context), callStateOf(context).request);
      }
    }
  };
}

/**
 * Marks the call's work as begun. Throws if the call has ended while its message was read, because
 * no caller waits for the work then.
 */
function begin(context: HandlerContext): CallDeadline {
  const deadline = deadlineOf(context);
  deadline.signal.throwIfAborted();
  deadline.begin();
  return deadline;
}

/** Returns the request, or the stream of requests, with each message authorized. */
async function authorized(
  parts: RpcParts,
  context: HandlerContext,
  { input, call }: { readonly input: unknown; readonly call: Call },
): Promise<unknown> {
  const { method } = context;
  const { principal } = call;
  const takesStream = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
  if (takesStream && isAsyncIterable(input)) {
    return eachAuthorized(parts, context, { requests: input, principal });
  }
  try {
    await authorizeCaller(parts, method, { principal, request: input });
  } catch (thrown) {
    parts.audit.unauthorized(method, input, { call, refusal: refusalOfWork(thrown) });
    throw thrown;
  }
  return input;
}

/** If a message can't be read, the work gets the refusal as the error of its input. */
async function* eachAuthorized(
  parts: RpcParts,
  context: HandlerContext,
  { requests, principal }: { readonly requests: AsyncIterable<unknown>; readonly principal: Principal },
): AsyncGenerator<unknown> {
  const messages = requests[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await messages.next().catch((thrown: unknown) => {
        throw framingRefusal(context, parts, thrown) ?? thrown;
      });
      if (next.done) return;
      await authorizeCaller(parts, context.method, { principal, request: next.value });
      yield next.value;
    }
  } finally {
    await messages.return?.();
  }
}

/** Returns the error that Connect sends. Counts it, unless it is counted already. */
function answerable(parts: RpcParts, context: HandlerContext, thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError && isSettled(thrown)) return thrown;
  const refusal = refusalOfWork(thrown);
  rateOnRefusal(context, parts.clock);
  countRefusal(context, parts, refusal);
  return thrown instanceof ConnectError ? settle(thrown) : connectErrorFrom(refusal);
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}
