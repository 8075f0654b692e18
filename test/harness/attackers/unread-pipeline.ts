// A process that pipelines requests over HTTP/1.1 and reads no answer. Arguments: port,
// connections, requests of a connection, path.
import { connect } from "node:net";
import { noLoad, reportRegularly } from "./report.ts";

const [port, connections, requests, path] = process.argv.slice(2);
const load = noLoad();
const bytes = Buffer.from(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(Number(requests)), "latin1");

for (let at = 0; at < Number(connections); at += 1) attack();
reportRegularly(load);

function attack(): void {
  const socket = connect({ host: "127.0.0.1", port: Number(port) }).pause();
  socket.on("connect", () => {
    load.connections += 1;
    load.requests += Number(requests);
    load.bytesSent += bytes.length;
    socket.write(bytes);
  });
  socket
    .on("error", () => undefined)
    .on("close", () => {
      load.closed += 1;
    });
}
