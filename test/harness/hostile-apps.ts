import { once } from "node:events";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import type { Writable } from "node:stream";
import { create, toBinary } from "@bufbuild/protobuf";
import { StreamRunResponseSchema } from "#gen/keyrun/v1/app_backend_service_pb.ts";
import { framed } from "./protocols.ts";

const longText = "x".repeat(1_048_000);
const wideText = "☀".repeat(349_000);
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const headOf = (type: string) =>
  `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`;
const whole = JSON.stringify({ text: longText });

/** What an app answers to each call, by the name of the app. It reads all that comes. */
const answers: Readonly<Record<string, (socket: Socket) => void>> = {
  /** It answers nothing. */
  silent: () => {},
  "whole-but-a-byte": (socket) => write(socket, [headOf("application/json"), chunk(whole.slice(0, -1))]),
  "line-without-end": (socket) => write(socket, [headOf("application/x-ndjson"), chunk(whole)]),
  "event-without-end": (socket) => {
    const data = `data: ${longText.slice(0, 1_000_000)}\ndata: ${longText.slice(0, 1_000_000)}`;
    write(socket, [headOf("text/event-stream"), chunk(data)]);
  },
  "bytes-in-chunks": (socket) => {
    write(socket, [headOf("application/x-ndjson"), "1\r\nx\r\n".repeat(1_000_000)]);
  },
  "long-events": (socket) => {
    socket.write(headOf("text/event-stream"));
    repeat(socket, Buffer.from(eventOf(longText)));
  },
  "long-wide-lines": (socket) => {
    socket.write(headOf("application/x-ndjson"));
    repeat(socket, Buffer.from(chunk(`${JSON.stringify({ text: wideText })}\n`)));
  },
  "heads-without-end": (socket) => {
    repeat(socket, Buffer.from("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"));
  },
  "long-head": (socket) => write(socket, [`HTTP/1.1 200 OK\r\n${"a: b\r\n".repeat(510)}`]),
  "long-answer": (socket) => endWith(socket, whole),
  "dense-answer": (socket) => {
    endWith(socket, JSON.stringify({ text: "x", more: Array(19_000).fill(0) }));
  },
};

const eventOf = (text: string) => chunk(`data: ${JSON.stringify({ text })}\n\n`);

const message = framed(
  toBinary(StreamRunResponseSchema, create(StreamRunResponseSchema, { text: longText })),
);

const grpcAnswers: Readonly<Record<string, (stream: ServerHttp2Stream) => void>> = {
  "grpc-silent": () => {},
  "grpc-message-without-end": (stream) => void stream.write(message.subarray(0, -1)),
  "grpc-long-messages": (stream) => repeat(stream, message),
};

/** Servers for these apps. The path of a call, or the port of a gRPC app, names the app. */
export async function serveHostileApps() {
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  };
  const http = createServer((socket) => {
    keep(socket);
    // All calls of one connection have one path.
    let heard = "";
    socket.on("data", (bytes) => {
      if (heard === "whole") return;
      heard += bytes.toString("latin1", 0, 200);
      const name = /^POST \/(\S+)/.exec(heard)?.[1];
      if (name === undefined) return;
      heard = "whole";
      answers[name]?.(socket);
    });
  });
  const port = await listen(http);
  const backends: Record<string, { kind: object }> = {};
  for (const name of Object.keys(answers)) {
    const url = `http://127.0.0.1:${port}/${name}`;
    backends[name] = { kind: { case: "http", value: { url } } };
  }
  const servers: Server[] = [http];
  for (const [name, answer] of Object.entries(grpcAnswers)) {
    const server = createHttp2Server({ maxSessionMemory: 10_000 });
    server.on("connection", keep).on("stream", (stream) => {
      stream.on("error", () => {}).resume();
      stream.respond({ ":status": 200, "content-type": "application/grpc" });
      answer(stream);
    });
    const target = `127.0.0.1:${await listen(server)}`;
    backends[name] = { kind: { case: "grpc", value: { target } } };
    servers.push(server);
  }
  return {
    backends: backends as Record<string, { kind: { case: "http"; value: { url: string } } }>,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      for (const server of servers) server.close();
    },
  };
}

function write(socket: Socket, parts: readonly string[]): void {
  for (const part of parts) socket.write(part);
}

function endWith(socket: Socket, body: string): void {
  socket.end(`HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
}

/** Says it again as long as the connection takes it. */
function repeat(to: Writable, bytes: Uint8Array): void {
  const fill = () => {
    while (!to.destroyed && to.write(bytes));
  };
  to.on("drain", fill);
  fill();
}

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}
