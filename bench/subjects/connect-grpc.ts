import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { routes } from "../connect-routes.ts";
import { apiKey } from "../key-and-limit.ts";
import { announce } from "../subject.ts";

// Stock Connect-Node over HTTP/2 with unary gRPC.
const server = createServer(connectNodeAdapter({ routes }));
server.listen(0, "127.0.0.1", () =>
  announce({ port: (server.address() as AddressInfo).port, apiKeys: [apiKey] }),
);
