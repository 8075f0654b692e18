import { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { queryObjects } from "node:v8";
import { expect, test } from "vitest";
import { unlimitedReservation } from "#src/limit/byte-budget.ts";
import { EventStreamDecoder } from "#src/run/stream/piece-decoder.ts";
import { wholeOutput } from "#src/run/stream/running-streams.ts";
import { appOn, openAppRunner, runOf, serveTcp } from "../harness/app-backends.ts";
import { collectGarbage } from "../harness/collect-garbage.ts";
import { begun } from "../harness/streamed-apps.ts";

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
  const begin = () => begun(runner.stream(runOf(app)));
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
    expect([...decoder.decode(Buffer.from("data:\n".repeat(linesAtOnce)))]).toEqual([]);
  }
  expect(heldBytes() - before).toBeLessThan(4 * 1024 * 1024);
  // The whole of it is there: half a million line feeds are JSON's whitespace.
  expect([...decoder.decode(Buffer.from('data:{"text":"x"}\n\n'))]).toEqual(["x"]);
});

function heldBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test("a whole output costs its bytes, although each of its characters came in a message of its own", async () => {
  const texts = 200_000;
  const waits = Promise.withResolvers<void>();
  const ends = Promise.withResolvers<void>();
  async function* said() {
    for (let given = 0; given < texts; given += 1) yield "x";
    waits.resolve();
    await ends.promise;
  }
  const before = heldBytes();
  const output = wholeOutput(said(), 1024 * 1024, unlimitedReservation);
  await waits.promise;
  expect(heldBytes() - before).toBeLessThan(4 * 1024 * 1024);
  ends.resolve();
  expect(await output).toEqual({ text: "x".repeat(texts) });
});
