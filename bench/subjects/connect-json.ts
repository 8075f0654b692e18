import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { routes } from "../connect-routes.ts";
import { apiKey } from "../key-and-limit.ts";
import { announce } from "../subject.ts";

// Stock Connect-Node over HTTP/1.1 with unary JSON. Connect has no REST paths: this server maps the
// path of a run to that of the method.
const handler = connectNodeAdapter({ routes });
const server = createServer((req, res) => {
  req.url = "/keyrun.v1.RunService/RunApp";
  handler(req, res);
});
server.listen(0, "127.0.0.1", () =>
  announce({ port: (server.address() as AddressInfo).port, apiKeys: [apiKey] }),
);
