import { bounds } from "../bounds.ts";
import type { Cell } from "../cell.ts";
import { envelope, readEnvelopes } from "./envelopes.ts";
import { RpcError, rpcErrorOf } from "./rpc-error.ts";
import type { Rpc } from "./rpcs.ts";

/**
 * How the screen calls Keyrun: by the JSON form of Connect over POST, at its own origin, with the
 * session's cookie (https://connectrpc.com/docs/protocol/).
 */
export interface Caller {
  /** A call with one answer. Fails after `callMsMax`. */
  call<I, O>(rpc: Rpc<I, O>, input: I, options?: CallOptions): Promise<O>;
  /** A call with a stream of answers, which has no deadline. */
  stream<I, O>(rpc: Rpc<I, O>, input: I, options?: CallOptions): AsyncIterable<O>;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
}

/**
 * Sets `sessionEnded` when a call is refused as unauthenticated. A call that succeeds clears it,
 * because the person may have signed in again in another tab.
 */
export function createCaller(
  baseUrl: string,
  sessionEnded: Cell<boolean>,
  fetch: typeof globalThis.fetch,
): Caller {
  const send = (path: string, contentType: string, rest: RequestInit) =>
    fetch(`${baseUrl}${path}`, {
      method: "POST",
      redirect: "error",
      ...rest,
      headers: { "Content-Type": contentType, "Connect-Protocol-Version": "1", ...rest.headers },
    });
  function refuse(error: RpcError): never {
    if (error.code === "unauthenticated") sessionEnded.set(true);
    throw error;
  }
  return {
    async call(rpc, input, { signal } = {}) {
      const deadline = AbortSignal.timeout(bounds.callMsMax);
      const response = await send(rpc.path, "application/json", {
        body: JSON.stringify(input),
        signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
        headers: { "Connect-Timeout-Ms": String(bounds.callMsMax) },
      });
      if (!response.ok) refuse(await errorOf(response));
      const answer = rpc.read(await jsonOf(response));
      sessionEnded.set(false);
      return answer;
    },
    async *stream(rpc, input, { signal } = {}) {
      const response = await send(rpc.path, streamType, {
        body: envelope(JSON.stringify(input)),
        signal: signal ?? null,
      });
      if (!response.ok) refuse(await errorOf(response));
      if (response.body === null || !isOf(response, streamType)) refuse(notConnect(response));
      for await (const { isEnd, json } of readEnvelopes(response.body)) {
        if (!isEnd) yield rpc.read(json);
        else if (hasError(json)) refuse(rpcErrorOf(json.error, factsOf(response)));
        else return;
      }
      throw new RpcError({ code: "unavailable", message: "The stream has ended in the middle." });
    },
  };
}

const streamType = "application/connect+json";

async function errorOf(response: Response): Promise<RpcError> {
  return rpcErrorOf(await response.json().catch(() => undefined), factsOf(response));
}

async function jsonOf(response: Response): Promise<unknown> {
  if (!isOf(response, "application/json")) throw notConnect(response);
  return response.json();
}

function isOf(response: Response, type: string): boolean {
  return response.headers.get("content-type")?.split(";")[0] === type;
}

/** Something between browser and Keyrun has answered, such as the sign-in page of a network. */
function notConnect(response: Response): RpcError {
  return new RpcError({ code: "unknown", requestId: factsOf(response).requestId });
}

function factsOf({ status, headers }: Response) {
  return { status, requestId: headers.get("x-request-id") };
}

function hasError(json: unknown): json is { error: unknown } {
  return typeof json === "object" && json !== null && "error" in json;
}
