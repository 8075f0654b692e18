import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { EventStreamDecoder } from "#src/run/stream/event-stream-decoder.ts";
import { appOn, openAppRunner, runOf, serveTcp } from "../harness/app-backends.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

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
