import { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { queryObjects } from "node:v8";
import { create, toBinary } from "@bufbuild/protobuf";
import { describe, expect, onTestFinished, test } from "vitest";
import { StreamRunResponseSchema } from "#gen/keyrun/v1/app_backend_service_pb.ts";
import { EventStreamDecoder } from "#src/run/stream/piece-decoder.ts";
import type { PieceSource } from "#src/run/stream/piece-source.ts";
import { wholeOutput } from "#src/run/stream/running-streams.ts";
import { appOn, openAppRunner, runOf, serveTcp } from "../harness/app-backends.ts";
import { collectGarbage } from "../harness/collect-garbage.ts";
import { fieldBlock, frame, framesIn, frameTypes } from "../harness/h2-frames.ts";

/** A chunk of one byte takes 6 bytes to send. */
const chunks = 200_000;

test("a run holds the bytes of its app's answer once, although each byte came in a chunk of its own", async () => {
  const sent = Promise.withResolvers<Socket>();
  const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const begin = `${head}9\r\n{"text":"\r\n${"1\r\nx\r\n".repeat(chunks)}`;
  await using server = await serveTcp((socket) =>
    socket.once("data", () => socket.write(begin, () => sent.resolve(socket))),
  );
  await using runner = openAppRunner({ outputBytesMax: 1024 * 1024 });
  const app = appOn({ kind: "http", url: `http://127.0.0.1:${server.port}/`, headers: [] });
  const before = heldBytes();
  const output = runner.run(runOf(app));
  const socket = await sent.promise;
  // All is in the system's buffers now, and a turn reads at least 64 KiB of it.
  for (let turns = 0; turns < 100; turns += 1) await turn();
  const held = heldBytes() - before;
  socket.write('2\r\n"}\r\n0\r\n\r\n');
  expect(await output).toBe("x".repeat(chunks));
  expect(held).toBeLessThan(4 * 1024 * 1024);
});

test("no connection to an app is held once it is closed, however many the app had at once", async () => {
  await using server = await serveTcp((socket) => {
    const head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n";
    socket.once("data", () => socket.write(`${head}{"text":"more"}\n`));
  });
  await using runner = openAppRunner();
  const app = appOn({ kind: "http", url: `http://127.0.0.1:${server.port}/`, headers: [] });
  const begin = async () => (await runner.stream(runOf(app)))[Symbol.asyncIterator]();
  const sockets = () => Number(queryObjects(Socket));
  const before = sockets();
  const streams = await Promise.all(Array.from({ length: 64 }, begin));
  for (const stream of streams) expect((await stream.next()).done).toBe(false);
  for (const stream of streams.splice(0)) await stream.return?.();
  await expect.poll(sockets, { timeout: 5_000 }).toBeLessThanOrEqual(before + 1);
});

test("an event without end costs the bytes of its data, although each of its lines is empty", () => {
  const decoder = new EventStreamDecoder(1024 * 1024);
  const lines = 500_000;
  // As many as one read has.
  const linesAtOnce = 10_000;
  const before = heldBytes();
  for (let fed = 0; fed < lines; fed += linesAtOnce) {
    decoder.feed(Buffer.from("data:\n".repeat(linesAtOnce)));
    expect(decoder.next()).toBeUndefined();
  }
  expect(heldBytes() - before).toBeLessThan(4 * 1024 * 1024);
  // The whole of it is there: half a million line feeds are JSON's whitespace.
  decoder.feed(Buffer.from('data:{"text":"x"}\n\n'));
  expect(decoder.next()).toBe("x");
});

function heldBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test("a whole output costs its bytes, although each of its characters came in a message of its own", async () => {
  const pieces = 500_000;
  let given = 0;
  const waits = Promise.withResolvers<void>();
  const ends = Promise.withResolvers<undefined>();
  const source: PieceSource = {
    begun: Promise.resolve(),
    over: Promise.resolve(),
    next() {
      given += 1;
      if (given <= pieces) return "x";
      waits.resolve();
      return ends.promise;
    },
    cancel: () => {},
  };
  const { held } = runOf(appOn({ kind: "echo" }));
  const before = heldBytes();
  const output = wholeOutput(source, 1024 * 1024, held);
  await waits.promise;
  expect(heldBytes() - before).toBeLessThan(4 * 1024 * 1024);
  ends.resolve(undefined);
  expect(await output).toBe("x".repeat(pieces));
});

describe("four gRPC apps that send each byte in a DATA frame of its own", () => {
  const bytes = 50_000;
  const first = encodedPiece("first");
  const second = encodedPiece("x".repeat(bytes));

  test("cost their bytes while their messages are not whole", async () => {
    await using runner = openAppRunner({ outputBytesMax: 1024 * 1024 });
    const before = heldBytes();
    const apps = await Promise.all([1, 2, 3, 4].map(() => serveFrames()));
    const outputs = apps.map(({ app }) => runner.run(runOf(app)));
    for (const each of apps) await each.sendBytes(second.subarray(0, -1));
    for (let turns = 0; turns < 100; turns += 1) await turn();
    expect(heldBytes() - before).toBeLessThan(8 * 1024 * 1024);
    for (const each of apps) await each.end(second.subarray(-1));
    expect(await Promise.all(outputs)).toEqual(apps.map(() => "x".repeat(bytes)));
  });

  test("cost their bytes while nobody reads their streams", async () => {
    await using runner = openAppRunner({ outputBytesMax: 1024 * 1024 });
    const before = heldBytes();
    const apps = await Promise.all([1, 2, 3, 4].map(() => serveFrames()));
    const streams = apps.map(async ({ app }) => (await runner.stream(runOf(app)))[Symbol.asyncIterator]());
    for (const [at, each] of apps.entries()) {
      await each.sendBytes(first);
      expect(await (await streams[at])?.next()).toEqual({ done: false, value: "first" });
      await each.sendBytes(second.subarray(0, -1));
    }
    for (let turns = 0; turns < 100; turns += 1) await turn();
    expect(heldBytes() - before).toBeLessThan(8 * 1024 * 1024);
    for (const [at, each] of apps.entries()) {
      await each.end(second.subarray(-1));
      const stream = await streams[at];
      expect(await stream?.next()).toEqual({ done: false, value: "x".repeat(bytes) });
      expect(await stream?.next()).toEqual({ done: true, value: undefined });
    }
  });
});

/** A message of either method with its prefix, as one gRPC server sends it. */
function encodedPiece(text: string): Buffer {
  const message = toBinary(StreamRunResponseSchema, create(StreamRunResponseSchema, { text }));
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([prefix, message]);
}

/** A gRPC app of raw frames, for one call: all that it sends fits into a window of flow control. */
async function serveFrames() {
  const called = Promise.withResolvers<{ socket: Socket; stream: number }>();
  const server = await serveTcp((socket) => {
    socket.write(frame({ type: frameTypes.settings, flags: 0, stream: 0 }));
    let heard = "";
    socket.setEncoding("latin1").on("data", (more: string) => {
      heard += more;
      const call = framesIn(heard.slice(h2Preface.length)).find(({ type }) => type === frameTypes.headers);
      if (call) called.resolve({ socket, stream: call.stream });
    });
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const send = async (flags: number, fields: readonly [string, string][]) => {
    const { socket, stream } = await called.promise;
    socket.write(frame({ type: frameTypes.headers, flags, stream }, fieldBlock(fields)));
  };
  const head = called.promise.then(() =>
    send(4, [
      [":status", "200"],
      ["content-type", "application/grpc"],
    ]),
  );
  const sendBytes = async (bytes: Buffer) => {
    await head;
    const { socket, stream } = await called.promise;
    const frames = [...bytes].map((byte) =>
      frame({ type: frameTypes.data, flags: 0, stream }, Buffer.of(byte)),
    );
    await new Promise<unknown>((written) => socket.write(Buffer.concat(frames), written));
  };
  return {
    app: appOn({ kind: "grpc", target: `127.0.0.1:${server.port}`, tls: false }),
    sendBytes,
    async end(bytes: Buffer) {
      await sendBytes(bytes);
      await send(5, [["grpc-status", "0"]]);
    },
  };
}

const h2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
