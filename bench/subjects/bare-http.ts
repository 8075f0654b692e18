import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { announce } from "../subject.ts";

// The least that answers: read the body, parse it, answer with JSON. No key, no limit, no routes.
const server = createServer((req, res) => {
  let body = "";
  req.setEncoding("utf8");
  req.on("data", (chunk) => {
    body += chunk;
  });
  req.on("end", () => {
    const { text } = JSON.parse(body);
    const answer = JSON.stringify({ runId: "run_0", appId: "echo", text });
    res.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) });
    res.end(answer);
  });
});
server.listen(0, "127.0.0.1", () => announce({ port: (server.address() as AddressInfo).port }));
