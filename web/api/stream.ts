import { factsOf, isOf, notConnect } from "./answers.ts";
import type { Caller, CallOptions } from "./caller.ts";
import { envelope, readEnvelopes } from "./envelopes.ts";
import { RpcError, rpcErrorOf } from "./rpc-error.ts";
import type { Rpc } from "./rpcs.ts";

const streamType = "application/connect+json";

/** A call with a stream of answers, which has no deadline. */
export async function* openStream<I, O>(
  caller: Caller,
  rpc: Rpc<I, O>,
  input: I,
  { signal }: CallOptions = {},
): AsyncGenerator<O> {
  const response = await caller.send(rpc.path, streamType, {
    body: envelope(JSON.stringify(input)),
    signal: signal ?? null,
  });
  if (response.body === null || !isOf(response, streamType)) caller.refuse(notConnect(response));
  for await (const { isEnd, json } of readEnvelopes(response.body)) {
    if (!isEnd) yield rpc.read(json);
    else if (hasError(json)) caller.refuse(rpcErrorOf(json.error, factsOf(response)));
    else return;
  }
  throw new RpcError({ code: "unavailable", message: "The stream has ended in the middle." });
}

function hasError(json: unknown): json is { error: unknown } {
  return typeof json === "object" && json !== null && "error" in json;
}
