/** The methods of our services in the form that Connect calls. */

import { createRegistry, type DescFile, type DescMethod, type Registry } from "@bufbuild/protobuf";
import {
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  type HandlerContext,
} from "@connectrpc/connect";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { type Checks, createChecks } from "#transcode/message-check.ts";
import { fail } from "../../refusal/refusal.ts";
import { type AdmittedCall, invokeOnce, invokeStream } from "../invoke.ts";
import type { RpcParts } from "../rpc-parts.ts";
import { type Rpc, refusalOfWork, takesStream } from "../served.ts";
import { createAuthenticateRequest, rateOnRefusal, rateOnSuccess } from "./authenticate-request.ts";
import { admittedCallOf, callStateOf, entryOf } from "./call-state.ts";
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
  const registry = registryOf(parts.rpcs);
  const checks = createChecks(registry);
  // Each method by itself, because each has its own bound and messages.
  for (const rpc of parts.rpcs) {
    const { method } = rpc;
    const answersOnce = method.methodKind === "unary" || method.methodKind === "client_streaming";
    const answer = answersOnce ? once(parts, rpc) : streamed(parts, rpc);
    const readMaxBytes = parts.policy.requestBytesMaxOf(method, parts.messageBytesMax);
    const jsonOptions = { ...writtenInFull, registry, textDecoder: jsonDecoderOf(method, checks) };
    // The types of `ServiceMethods` are those of the method, which the compiler can't see in here.
    router.rpc(method, answer as never, { readMaxBytes, jsonOptions });
  }
  return router.handlers;
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
  return { decode: (bytes: Uint8Array) => checkedJson(bytes, input, check) };
}

/**
 * Returns all messages of the services' files and their imports, for `google.protobuf.Any` in JSON.
 */
function registryOf(rpcs: readonly Rpc[]): Registry {
  const files = new Set<DescFile>();
  const add = (file: DescFile) => {
    if (files.has(file)) return;
    files.add(file);
    file.dependencies.forEach(add);
  };
  for (const { method } of rpcs) add(method.parent.file);
  return createRegistry(...files);
}

function once(parts: RpcParts, rpc: Rpc) {
  const { method, unaryMsMax } = rpc;
  const msMax = method.methodKind === "unary" ? unaryMsMax : undefined;
  return async (input: unknown, context: HandlerContext) => {
    try {
      const timeoutMs = msMax && Math.max(0, Math.min(context.timeoutMs() ?? msMax, msMax));
      const answer = await invokeOnce(parts, rpc, { ...admittedCall(parts, context, input), timeoutMs });
      rateOnSuccess(context, parts.clock);
      parts.outcomes.succeeded(entryOf(context), callStateOf(context).request);
      return answer;
    } catch (thrown) {
      throw answerable(parts, context, thrown);
    }
  };
}

function streamed(parts: RpcParts, rpc: Rpc) {
  return async function* (input: unknown, context: HandlerContext) {
    let isCounted = false;
    callStateOf(context).request.isStream = true;
    try {
      let isFirst = true;
      for await (const answer of await invokeStream(parts, rpc, admittedCall(parts, context, input))) {
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

/** Connect has read the message, or reads each of a stream when the work asks for it. */
function admittedCall(parts: RpcParts, context: HandlerContext, input: unknown): AdmittedCall {
  const read = () => (takesStream(context.method) ? readMessages(parts, context, input) : input);
  return { ...admittedCallOf(context), read };
}

/** If a message can't be read, the work gets the refusal as the error of its input. */
async function* readMessages(
  parts: RpcParts,
  context: HandlerContext,
  input: unknown,
): AsyncGenerator<unknown> {
  try {
    yield* input as AsyncIterable<unknown>;
  } catch (thrown) {
    throw framingRefusal(context, parts, thrown) ?? thrown;
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
