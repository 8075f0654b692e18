import { once } from "node:events";
import { connect, type SecureClientSessionOptions } from "node:http2";
import type { GrpcTransportOptions } from "@connectrpc/connect-node";

/** An HTTP/2 connection for one command, to `origin`. */
export type Session = NonNullable<GrpcTransportOptions["sessionManager"]> & { close(): void };

/**
 * Connects at once. Connect's own manager stops listening to a connection's errors when it is closed, so that one
 * to a server which speaks no HTTP/2 would end the process with a stack.
 */
export function openSession(origin: string, options: SecureClientSessionOptions): Session {
  const session = connect(origin, options);
  const connected = once(session, "connect");
  // Told where it is awaited, by the request; a later error reaches the request through its stream.
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
