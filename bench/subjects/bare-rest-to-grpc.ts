import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createGrpcApp } from "../app-backend.ts";
import { announce, appPlace } from "../subject.ts";

// The least that passes a run on to an app behind gRPC: node:http in, grpc-js out.
const run = createGrpcApp(appPlace);
const server = createServer((req, res) => {
  let body = "";
  req.setEncoding("utf8");
  req.on("data", (chunk) => {
    body += chunk;
  });
  req.on("end", async () => {
    const text = await run("shout", JSON.parse(body).text);
    const answer = JSON.stringify({ runId: "run_0", appId: "shout", text });
    res.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) });
    res.end(answer);
  });
});
server.listen(0, "127.0.0.1", () => announce({ port: (server.address() as AddressInfo).port }));
