import { expect, onTestFinished, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { fail } from "#src/refusal/refusal.ts";
import { h2cRequest, h2cSession } from "../../harness/h2c-client.ts";
import { rawSocket } from "../../harness/raw-socket.ts";
import { jsonAnswer, serveForTest as served } from "../../harness/served-handler.ts";
import { soon } from "../../harness/soon.ts";

const mebibyte = 1024 * 1024;
const body = Buffer.from(Array.from({ length: mebibyte - 1_000 }, (_, at) => at % 251));
const post = { ":method": "POST", ":path": "/" };

/** Notes each piece of memory that is freed by hand, in bytes. */
function noteFreed(): number[] {
  const freed: number[] = [];
  const { transfer } = ArrayBuffer.prototype;
  ArrayBuffer.prototype.transfer = function (this: ArrayBuffer, ...args) {
    freed.push(this.byteLength);
    return transfer.apply(this, args);
  };
  onTestFinished(() => {
    ArrayBuffer.prototype.transfer = transfer;
  });
  return freed;
}

/** Reads the body, frees it twice, and answers what it has seen. */
const freeing: HttpHandler = async (request) => {
  const outcome = await request.readBody(mebibyte);
  if (outcome.kind !== "whole") return jsonAnswer(200, outcome.kind);
  const { bytes, free } = outcome;
  const isRight = body.equals(bytes);
  const memory = bytes.buffer.byteLength;
  free?.();
  free?.();
  return jsonAnswer(200, { isRight, memory, canBeFreed: free !== undefined, left: bytes.byteLength });
};

test("the memory of a long body is at most its bound, and is freed when its handler says so, over HTTP/1.1 and HTTP/2", async () => {
  const { url } = await served(freeing);
  const isFreed = { isRight: true, canBeFreed: true, left: 0 };
  const exact = { ...isFreed, memory: body.length };
  const roomy = { ...isFreed, memory: mebibyte };

  const announced = await fetch(url, { method: "POST", body });
  expect(await announced.json()).toEqual(exact);
  const chunked = await fetch(url, { method: "POST", body: new Blob([body]).stream(), duplex: "half" });
  expect(await chunked.json()).toEqual(roomy);

  const session = await h2cSession(url);
  onTestFinished(() => session.destroy());
  const over2 = async (headers = {}) =>
    JSON.parse((await h2cRequest(session, { ...post, ...headers }, body)).body);
  expect(await over2()).toEqual(roomy);
  expect(await over2({ "content-length": body.length })).toEqual(exact);
});

test("the memory that a growing body has outgrown is freed at once", async () => {
  const freed = noteFreed();
  const { url } = await served(freeing);
  const session = await h2cSession(url);
  onTestFinished(() => session.destroy());
  await h2cRequest(session, post, body);
  // Without the last one, which its handler freed, these are the steps by which it grew.
  const outgrown = freed.slice(0, -1);
  expect(outgrown.length).toBeGreaterThan(1);
  expect(Math.min(...outgrown)).toBeGreaterThanOrEqual(64 * 1024);
  expect(outgrown.toSorted((one, other) => one - other)).toEqual(outgrown);
});

test("the memory of a body that is too large, cut off, or refused while it arrives is freed without its handler", async () => {
  const freed = noteFreed();
  const { url, port, requests } = await served(async (request) => {
    if (request.target !== "/refused") return freeing(request);
    await new Promise<void>((resolve) => {
      refuse = resolve;
    });
    return { refusal: fail("INVALID_CREDENTIAL") };
  });
  let refuse: (() => void) | undefined;
  const session = await h2cSession(url);
  onTestFinished(() => session.destroy());
  const sum = () => freed.reduce((bytes, one) => bytes + one, 0);

  expect((await h2cRequest(session, post, Buffer.alloc(2 * mebibyte))).body).toBe('"too_large"');
  expect(Math.max(...freed)).toBeGreaterThan(mebibyte);

  freed.length = 0;
  const client = rawSocket({ port });
  client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${mebibyte}\r\n\r\n`);
  await soon(() => requests.running()).toBe(1);
  client.send(body);
  await soon(() => client.socket.writableLength).toBe(0);
  client.socket.destroy();
  // Beside it the chunks are freed that it came in.
  await soon(() => freed.filter((bytes) => bytes === mebibyte).length).toBe(1);

  freed.length = 0;
  const stream = session.request({ ...post, ":path": "/refused" });
  stream.on("error", () => undefined);
  stream.write(Buffer.alloc(200_000));
  await soon(() => refuse !== undefined && sum() > 64 * 1024).toBe(true);
  const outgrown = sum();
  refuse?.();
  await soon(() => sum() - outgrown).toBeGreaterThanOrEqual(200_000);
  stream.end();
});

test("over HTTP/1.1 the memory of each long chunk is freed as soon as it was copied or dropped", async () => {
  const freed = noteFreed();
  const { url, port } = await served(async (request) => {
    if (request.target === "/dropped") return { refusal: fail("INVALID_CREDENTIAL") };
    return freeing(request);
  });
  const sum = () => freed.reduce((bytes, one) => bytes + one, 0);
  const announced = await fetch(url, { method: "POST", body });
  expect(await announced.json()).toMatchObject({ isRight: true, left: 0 });
  // The body itself, and the chunks that it came in, of which some may be short.
  expect(sum()).toBeGreaterThan(1.5 * body.length);

  freed.length = 0;
  const client = rawSocket({ port });
  client.send(`POST /dropped HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n`);
  client.send(body.subarray(0, 200_000));
  await soon(() => sum()).toBeGreaterThan(100_000);
  client.socket.destroy();
});

test("over HTTP/1.1 a body of one chunk is freed when its handler says so", async () => {
  const { port } = await served(async (request) => {
    const outcome = await request.readBody(mebibyte);
    if (outcome.kind !== "whole") return jsonAnswer(200, outcome.kind);
    outcome.free?.();
    return jsonAnswer(200, { canBeFreed: outcome.free !== undefined, left: outcome.bytes.byteLength });
  });
  const answerTo = async (bytes: number) => {
    const client = rawSocket({ port });
    const head = `POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ${bytes}\r\n\r\n`;
    client.send(Buffer.concat([Buffer.from(head), body.subarray(0, bytes)]));
    return client.closed();
  };
  expect(await answerTo(30_000)).toContain('"canBeFreed":true,"left":0');
  // To free it would cost more than it gives.
  expect(await answerTo(3_000)).toContain('"canBeFreed":false,"left":3000');
});

test("over HTTP/2 a short body shares its memory with others, so it can't be freed", async () => {
  const freed = noteFreed();
  const { url } = await served(freeing);
  const session = await h2cSession(url);
  onTestFinished(() => session.destroy());
  const { body: answer } = await h2cRequest(session, post, body.subarray(0, 30_000));
  expect(JSON.parse(answer)).toMatchObject({ canBeFreed: false, left: 30_000 });
  expect(freed).toEqual([]);
});
