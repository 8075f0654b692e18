/**
 * What happens round the work of an RPC, over every protocol and in this order:
 *
 * 1. `authenticate.ts` proves the caller by the credential that the policy asks for. No byte of the
 *    message is read before. A refused attempt at a change is written into the audit log.
 * 2. From here on the call ends at its deadline, when its caller disconnects, or with the drain.
 * 3. The handler reads the message, in its protocol.
 * 4. The message must name a team of the caller's. This attempt is written down, too.
 * 5. The work is marked as begun: a call that ends early may have done it.
 * 6. The audit log begins the event of a change, and the work is done.
 * 7. The handler writes the answer or the refusal in its protocol, and counts it.
 *
 * The handlers do 1, 3 and 7, and call this file for the rest. The access log and the spans watch
 * the whole request, from outside (`app/request-observers.ts`).
 */

import type { DescMethod } from "@bufbuild/protobuf";
import type { Call } from "../auth/principal.ts";
import { untilEnded } from "../http/handler.ts";
import { authorizeCaller } from "./authenticate.ts";
import type { CallDeadline } from "./call-deadline.ts";
import type { RpcParts } from "./rpc-parts.ts";
import { type Rpc, refusalOfWork, takesStream } from "./served.ts";

type InvokeParts = Pick<RpcParts, "policy" | "sessions" | "audit">;

/** A call whose caller is admitted, and whose message is not read yet. */
export interface AdmittedCall {
  readonly call: Call;
  /** Ends `call.signal`. */
  readonly deadline: CallDeadline;
  /** Returns the message, or the stream of messages. */
  readonly read: () => unknown;
}

/**
 * Resolves with the answer, or rejects where the call ends first: at the latest after `timeoutMs`,
 * even if its work does not end.
 */
export function invokeOnce(
  parts: InvokeParts,
  rpc: Rpc,
  admitted: AdmittedCall & { readonly timeoutMs: number | undefined },
): Promise<unknown> {
  return admitted.deadline.within(invoke(parts, rpc, admitted), admitted.timeoutMs);
}

/** Resolves with the stream of answers. It ends with the call. */
export async function invokeStream(
  parts: InvokeParts,
  rpc: Rpc,
  admitted: AdmittedCall,
): Promise<AsyncIterable<unknown>> {
  const answers = await invoke(parts, rpc, admitted);
  if (!isAsyncIterable(answers)) throw new Error(`${rpc.method.toString()} answers with no stream`);
  return untilEnded(answers, admitted.deadline.signal);
}

async function invoke(
  parts: InvokeParts,
  { method, work }: Rpc,
  { call, deadline, read }: AdmittedCall,
): Promise<unknown> {
  const input = await read();
  const request = takesStream(method)
    ? eachAuthorized(parts, method, { input, call })
    : await authorized(parts, method, { input, call });
  // If the call ended while its message was read, no caller waits for the work.
  deadline.signal.throwIfAborted();
  deadline.begin();
  return parts.audit.during(method, { request, call }, () => work(request, call));
}

interface Unauthorized {
  readonly input: unknown;
  readonly call: Call;
}

/** Returns the message. Throws unless its caller may send it. */
async function authorized(
  parts: InvokeParts,
  method: DescMethod,
  { input, call }: Unauthorized,
): Promise<unknown> {
  try {
    await authorizeCaller(parts, method, { principal: call.principal, request: input });
    return input;
  } catch (thrown) {
    parts.audit.unauthorized(method, input, { call, refusal: refusalOfWork(thrown) });
    throw thrown;
  }
}

async function* eachAuthorized(
  parts: InvokeParts,
  method: DescMethod,
  { input, call }: Unauthorized,
): AsyncGenerator<unknown> {
  if (!isAsyncIterable(input)) throw new Error(`${method.toString()} got no stream`);
  for await (const message of input) yield await authorized(parts, method, { input: message, call });
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}
