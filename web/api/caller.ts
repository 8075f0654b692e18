import { bounds } from "../bounds.ts";
import type { Cell } from "../cell.ts";
import { errorOf, isOf, notConnect, type RpcError } from "./rpc-error.ts";
import type { Rpc } from "./rpcs.ts";

/**
 * How the screen calls Keyrun: by the JSON form of Connect over POST, at its own origin, with the
 * session's cookie (https://connectrpc.com/docs/protocol/). `stream.ts` reads streams.
 */
export interface Caller {
  /** A call with one answer. Fails after `callMsMax`. */
  call<I, O>(rpc: Rpc<I, O>, input: I, options?: CallOptions): Promise<O>;
  /** Sends a request to a path and returns its answer, unless that is a refusal. */
  send(path: string, contentType: string, rest: RequestInit): Promise<Response>;
  /** Throws a refusal, after it has noted whether the session is over. */
  refuse(error: RpcError): never;
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
  async function send(path: string, contentType: string, rest: RequestInit): Promise<Response> {
    const response = await fetch(`${baseUrl}${path}`, {
      method: "POST",
      redirect: "error",
      ...rest,
      headers: { "Content-Type": contentType, "Connect-Protocol-Version": "1", ...rest.headers },
    });
    if (!response.ok) refuse(await errorOf(response));
    return response;
  }
  function refuse(error: RpcError): never {
    if (error.code === "unauthenticated") sessionEnded.set(true);
    throw error;
  }
  return {
    async call<I, O>(rpc: Rpc<I, O>, input: I, { signal }: CallOptions = {}): Promise<O> {
      const deadline = AbortSignal.timeout(bounds.callMsMax);
      const response = await send(rpc.path, "application/json", {
        body: JSON.stringify(input),
        signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
        headers: { "Connect-Timeout-Ms": String(bounds.callMsMax) },
      });
      if (!isOf(response, "application/json")) throw notConnect(response);
      // Keyrun itself has answered, so nothing is checked twice.
      const answer = (await response.json()) as O;
      sessionEnded.set(false);
      return answer;
    },
    send,
    refuse,
  };
}
