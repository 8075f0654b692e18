import { once } from "node:events";
import { connect, type SecureClientSessionOptions } from "node:http2";
import type { GrpcTransportOptions } from "@connectrpc/connect-node";

/** An HTTP/2 connection for one command, to `origin`. */
export type Session = NonNullable<GrpcTransportOptions["sessionManager"]> & { close(): void };

/**
 * Connects at once. Connect's own session manager removes its error listeners when it is closed. A
 * server that speaks no HTTP/2 causes an error after that, which would end the process.
 */
export function openSession(origin: string, options: SecureClientSessionOptions): Session {
  const session = connect(origin, options);
  const connected = once(session, "connect");
  // The request awaits `connected` and gets its error. A later error reaches the request's stream.
  connected.catch(() => {});
  session.on("error", () => {});
  return {
    authority: origin,
    request: async (method, path, headers, streamOptions) => {
      await connected;
      return session.request({ ...headers, ":method": method, ":path": path }, streamOptions);
    },
    notifyResponseByteRead: () => {},
    close: () => session.destroy(),
  };
}
