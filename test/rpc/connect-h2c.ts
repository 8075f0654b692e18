import type { Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import type { ServedService } from "#src/rpc/served.ts";
import { serveRpcs } from "../harness/rpc-listener.ts";

export const rpcProtocols = ["gRPC", "gRPC-Web", "Connect"] as const;

export interface ConnectH2cServer {
  /** For example `127.0.0.1:49152`. */
  readonly authority: string;
  readonly url: string;
  /** Creates a client transport with its own connection. */
  transport(protocol: (typeof rpcProtocols)[number]): Transport;
  /** Closes the server and every client at once. */
  close(): Promise<void>;
}

/** Serves the services on a real listener, on a free loopback port. */
export async function serveConnectH2c(services: readonly ServedService[]): Promise<ConnectH2cServer> {
  const { port, url, listener, requests } = await serveRpcs(services);
  const authority = `127.0.0.1:${port}`;
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
      listener.destroy();
      await Promise.all([listener.drained(), requests.idle()]);
    },
  };
}
