import { once } from "node:events";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { ConnectError, type ConnectRouter, type Interceptor, type Transport } from "@connectrpc/connect";
import {
  connectNodeAdapter,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { Refusal } from "#src/error.ts";
import { reasons } from "#src/reasons.ts";

export const rpcProtocols = ["gRPC", "gRPC-Web", "Connect"] as const;

export interface ConnectH2cServer {
  /** As in `127.0.0.1:49152`. */
  readonly authority: string;
  readonly url: string;
  /** A client's side of one protocol, on a connection of its own. */
  transport(protocol: (typeof rpcProtocols)[number]): Transport;
  /** Takes the server and every client away at once. */
  close(): Promise<void>;
}

/** The routes on a real HTTP/2 server without TLS, at a free port of the loopback. */
export async function serveConnectH2c(routes: (router: ConnectRouter) => void): Promise<ConnectH2cServer> {
  const server = createServer(connectNodeAdapter({ routes, interceptors: [refusalsAsStatus] }));
  const sessions = new Set<{ destroy(): void }>();
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const authority = `127.0.0.1:${port}`;
  const url = `http://${authority}`;
  const managers: Http2SessionManager[] = [];
  return {
    authority,
    url,
    transport(protocol) {
      const sessionManager = new Http2SessionManager(url);
      managers.push(sessionManager);
      const options = { baseUrl: url, sessionManager };
      if (protocol === "gRPC") return createGrpcTransport(options);
      if (protocol === "gRPC-Web") return createGrpcWebTransport({ ...options, httpVersion: "2" });
      return createConnectTransport({ ...options, httpVersion: "2" });
    },
    async close() {
      for (const manager of managers) manager.abort();
      for (const session of sessions) session.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** As much of the RPC door as a service needs to stand alone: a refusal's status and words. */
const refusalsAsStatus: Interceptor = (next) => async (request) => {
  const response = await next(request).catch(asStatus);
  if (!response.stream) return response;
  return { ...response, message: statusAtEnd(response.message) };
};

async function* statusAtEnd<T>(messages: AsyncIterable<T>): AsyncIterable<T> {
  try {
    yield* messages;
  } catch (thrown) {
    asStatus(thrown);
  }
}

function asStatus(thrown: unknown): never {
  if (thrown instanceof Refusal) throw new ConnectError(thrown.message, reasons[thrown.reason].code);
  throw thrown;
}
