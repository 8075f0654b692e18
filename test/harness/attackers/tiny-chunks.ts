// A process that sends requests over HTTP/1.1 whose bodies are chunks of one byte each, as fast as
// the server takes them, and reads the answers. They come from an address of their own: an event
// loop that is late serves each address its share, and the other caller's share is then not theirs.
// Arguments: port, connections, chunks of one body, path, header lines (each ended by CRLF).
import { connect } from "node:net";
import { countStatus, noLoad, reportRegularly } from "./report.ts";

const [port, connections, chunks, path, headers = ""] = process.argv.slice(2);
const load = noLoad();
const head = `POST ${path} HTTP/1.1\r\nHost: a\r\n${headers}Transfer-Encoding: chunked\r\n\r\n`;
const request = Buffer.from(`${head}${"1\r\nx\r\n".repeat(Number(chunks))}0\r\n\r\n`, "latin1");

for (let at = 0; at < Number(connections); at += 1) attack();
reportRegularly(load);

function attack(): void {
  const socket = connect({ host: "127.0.0.1", port: Number(port), localAddress: "127.0.0.2" });
  const fill = () => {
    let hasRoom = true;
    while (hasRoom && !socket.destroyed) {
      hasRoom = socket.write(request);
      load.requests += 1;
      load.bytesSent += request.length;
    }
  };
  socket.on("connect", () => {
    load.connections += 1;
    fill();
  });
  socket.on("drain", fill);
  socket.on("data", (bytes: Buffer) => {
    for (const [, status = ""] of bytes.toString("latin1").matchAll(/HTTP\/1\.1 (\d{3})/g)) {
      countStatus(load, status);
    }
  });
  socket.on("error", () => undefined);
  socket.on("close", () => {
    load.closed += 1;
    attack();
  });
}
