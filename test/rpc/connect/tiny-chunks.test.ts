import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { unlimitedReservation } from "#src/limit/byte-budget.ts";
import { wholeMessages } from "#src/rpc/connect/call-route.ts";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { collectGarbage } from "../../harness/collect-garbage.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { rawSocket } from "../../harness/raw-socket.ts";

let key = "";

const keyrun = closedAtEnd(await startKeyrun());
key = (await keyrun.newKey("demo")).value;

const chunks = 200_000;
const message = Buffer.from(JSON.stringify({ appId: "echo", text: "x".repeat(chunks) }));

test.each([
  ["a Connect call", "RunApp", "application/json", message],
  ["a stream of Connect", "StreamApp", "application/connect+json", framed(message)],
  ["gRPC-Web", "RunApp", "application/grpc-web+json", framed(message)],
])(
  "the message of %s costs its bytes, although each came in a chunk of its own",
  async (_, rpc, type, body) => {
    const client = rawSocket({ port: Number(new URL(keyrun.publicUrl).port) });
    const head = `POST /keyrun.v1.RunService/${rpc} HTTP/1.1\r\nHost: a\r\nContent-Type: ${type}\r\n`;
    client.send(
      `${head}Connect-Protocol-Version: 1\r\nAuthorization: Bearer ${key}\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const begin = body.subarray(0, body.length - chunks);
    client.send(`${begin.length.toString(16)}\r\n`);
    client.send(begin);
    client.send("\r\n");
    const before = heldBytes();
    for (let sent = begin.length; sent < body.length - 1; sent += 10_000) {
      const part = body.subarray(sent, Math.min(sent + 10_000, body.length - 1)).toString("latin1");
      client.send([...part].map((byte) => `1\r\n${byte}\r\n`).join(""));
      await turn();
    }
    while (client.socket.writableLength > 0) await turn();
    for (let turns = 0; turns < 100; turns += 1) await turn();
    expect(heldBytes() - before).toBeLessThan(8 * 1024 * 1024);
    client.send(`1\r\n${body.subarray(-1).toString("latin1")}\r\n0\r\n\r\n`);
    await client.until((heard) => heard.includes("x".repeat(1_000)));
    client.socket.destroy();
  },
);

test.each([
  ["at once", 1_000],
  ["byte by byte", 1],
  ["in parts that end nowhere", 7],
])("envelopes that come %s are passed on whole, and the rest at the end", async (_, part) => {
  const envelopes = [framed(Buffer.from("first")), framed(Buffer.alloc(0)), framed(Buffer.from("third"))];
  const rest = framed(Buffer.from("cut off")).subarray(0, 9);
  const passed = await passedOn(Buffer.concat([...envelopes, rest]), part, { isEnveloped: true });
  expect(Buffer.concat(passed)).toEqual(Buffer.concat([...envelopes, rest]));
  const ends = passed.map((_, at) => Buffer.concat(passed.slice(0, at + 1)).length);
  expect([10, 15, 25, 34]).toEqual(expect.arrayContaining(ends));
  if (part === 1) expect(ends).toEqual([10, 15, 25, 34]);
});

test("of many envelopes that come at once few are passed on together, because each takes time", async () => {
  const envelopes = Buffer.alloc(5 * 10_000);
  const passed = await passedOn(envelopes, envelopes.length, { isEnveloped: true });
  expect(Buffer.concat(passed)).toEqual(envelopes);
  expect(Math.max(...passed.map(({ length }) => length))).toBeLessThanOrEqual(5 * 32);
});

test("what is too long is passed on before its end", async () => {
  const [prefix] = await passedOn(framed(Buffer.alloc(101)), 1, { isEnveloped: true });
  expect(prefix).toHaveLength(5);
  const [tooLong] = await passedOn(Buffer.alloc(150), 1, { isEnveloped: false });
  expect(tooLong).toHaveLength(101);
});

async function passedOn(bytes: Buffer, part: number, { isEnveloped }: { isEnveloped: boolean }) {
  async function* parts() {
    for (let at = 0; at < bytes.length; at += part) yield Buffer.from(bytes.subarray(at, at + part));
  }
  const passed: Buffer[] = [];
  const how = { isEnveloped, bytesMax: 100, reservation: unlimitedReservation };
  for await (const chunk of wholeMessages(parts(), how)) {
    passed.push(Buffer.from(chunk));
  }
  return passed;
}

function framed(bytes: Buffer): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
}

function heldBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
