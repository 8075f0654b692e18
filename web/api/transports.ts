import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { bounds } from "../bounds.ts";
import type { Cell } from "../cell.ts";

/**
 * How the screen calls Keyrun: by Connect over POST, at its own origin, with the session's cookie.
 */
export interface Transports {
  /** For calls with one answer. A call fails after `callMsMax`. */
  readonly unary: Transport;
  /** For streams, which have no deadline. */
  readonly stream: Transport;
}

/**
 * Both transports set `sessionEnded` when a call is refused as UNAUTHENTICATED. A call that
 * succeeds clears it, because the person may have signed in again in another tab.
 */
export function createTransports(baseUrl: string, sessionEnded: Cell<boolean>): Transports {
  const interceptors = [noticeSession(sessionEnded)];
  return {
    unary: createConnectTransport({ baseUrl, interceptors, defaultTimeoutMs: bounds.callMsMax }),
    stream: createConnectTransport({ baseUrl, interceptors }),
  };
}

function noticeSession(sessionEnded: Cell<boolean>): Interceptor {
  return (next) => async (request) => {
    try {
      const response = await next(request);
      if (!response.stream) sessionEnded.set(false);
      return response;
    } catch (thrown) {
      if (ConnectError.from(thrown).code === Code.Unauthenticated) sessionEnded.set(true);
      throw thrown;
    }
  };
}
