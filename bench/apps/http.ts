import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { spawnServer } from "../child-server.ts";
import { goProgram } from "../go-program.ts";
import { announce } from "../subject.ts";

// The app behind the gateways: it answers with the text that it was sent. In Go if Go is installed,
// because a slow app would leave the gateways idle.
const program = goProgram("app");
if (program) {
  const { match, stop } = await spawnServer([program], /^http:\S+$/);
  announce({ place: match[0] }, stop);
} else {
  const server = createServer((req, res) => {
    let body = "";
    req.setEncoding("utf8");
    req.on("data", (chunk) => {
      body += chunk;
    });
    req.on("end", () => {
      const answer = JSON.stringify({ text: JSON.parse(body).text });
      res.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) });
      res.end(answer);
    });
  });
  server.keepAliveTimeout = 0;
  server.listen(0, "127.0.0.1", () => {
    announce({ place: `http://127.0.0.1:${(server.address() as AddressInfo).port}/run` });
  });
}
