import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { announce, appPlace } from "../subject.ts";

// The least that passes a run on: read JSON and write JSON, both ways, through Node's own client
// with kept connections. No key, no limit, no routes.
const agent = new Agent({ keepAlive: true });

function run(text: string, done: (output: string) => void): void {
  const body = JSON.stringify({ runId: "run_0", teamId: "demo", appId: "shout", text });
  const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
  const sent = request(appPlace, { method: "POST", agent, headers }, (answer) => {
    let output = "";
    answer.setEncoding("utf8");
    answer.on("data", (chunk) => {
      output += chunk;
    });
    answer.on("end", () => done(JSON.parse(output).text));
  });
  sent.end(body);
}

const server = createServer((req, res) => {
  let body = "";
  req.setEncoding("utf8");
  req.on("data", (chunk) => {
    body += chunk;
  });
  req.on("end", () => {
    run(JSON.parse(body).text, (text) => {
      const answer = JSON.stringify({ runId: "run_0", appId: "shout", text });
      res.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) });
      res.end(answer);
    });
  });
});
server.listen(0, "127.0.0.1", () => announce({ port: (server.address() as AddressInfo).port }));
