import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { appOn, causeOf, openAppRunner, refusalOf, runOf } from "../harness/app-backends.ts";
import { begun, readText, type Script, serveGrpcApp } from "../harness/streamed-apps.ts";

const says =
  (...texts: string[]): Script =>
  (talk) => {
    for (const text of texts) talk.say(text);
    talk.end();
  };

describe("an app that has one of the two methods alone", () => {
  test("is called by it, and each of its methods once a run", async () => {
    await using runner = openAppRunner();
    await using withRun = await serveGrpcApp({ run: says("whole") });
    expect(await readText(runner.stream(runOf(appOn(withRun.backend))))).toEqual({
      text: "whole",
    });
    expect(withRun.seen).toEqual({ run: 1, streamRun: 0 });
    await using withStreamRun = await serveGrpcApp({ streamRun: says("a ", "", "b") });
    expect(await runner.run(runOf(appOn(withStreamRun.backend)))).toBe("a b");
    expect(withStreamRun.seen).toEqual({ run: 0, streamRun: 1 });
  });

  test("is APP_FAILED if that method fails, also as unimplemented", async () => {
    await using runner = openAppRunner();
    await using neither = await serveGrpcApp({});
    const app = appOn(neither.backend);
    for (const ended of [runner.run(runOf(app)), begun(runner.stream(runOf(app))).then(() => "a stream")]) {
      const refusal = await refusalOf(ended);
      expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
      expect(causeOf(refusal)).toContain("UNIMPLEMENTED");
    }
  });
});

test("an app that has both is called by the one that was asked for", async () => {
  await using runner = openAppRunner();
  await using server = await serveGrpcApp({ run: says("whole"), streamRun: says("a", "b") });
  expect(await runner.run(runOf(appOn(server.backend)))).toBe("whole");
  expect(await readText(runner.stream(runOf(appOn(server.backend))))).toEqual({ text: "ab" });
  expect(server.seen).toEqual({ run: 1, streamRun: 1 });
});

test("the pieces of a run have the bound of an app's answer together", async () => {
  await using runner = openAppRunner({ outputBytesMax: 10 });
  await using within = await serveGrpcApp({ streamRun: says("12345678", "é") });
  expect(await runner.run(runOf(appOn(within.backend)))).toBe("12345678é");
  await using beyond = await serveGrpcApp({ streamRun: says("12345678", "é", "x") });
  const refusal = await refusalOf(runner.run(runOf(appOn(beyond.backend))));
  expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
});

/** An app on plain HTTP/2, for answers that a gRPC library does not give. `paths` are its calls. */
async function serveFrames(answer: (stream: ServerHttp2Stream, path: string) => void) {
  const paths: string[] = [];
  const server = createServer();
  server.on("session", (session) => onTestFinished(() => session.destroy()));
  server.on("stream", (stream, headers) => {
    const path = String(headers[":path"]);
    paths.push(path.slice(path.lastIndexOf("/") + 1));
    stream.on("error", () => {});
    answer(stream, path);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void server.close());
  const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { backend: { kind: "grpc", target, tls: false } as const, paths };
}

const type = { ":status": 200, "content-type": "application/grpc" };

function endWith(stream: ServerHttp2Stream, status: string) {
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": status }));
}

describe("UNIMPLEMENTED", () => {
  test("after the head and before any message still means that nothing has run", async () => {
    const server = await serveFrames((stream, path) => {
      const isRun = path.endsWith("/Run");
      endWith(stream, isRun ? "0" : "12");
      stream.respond(type, { waitForTrailers: true });
      stream.end(isRun ? Buffer.from([0, 0, 0, 0, 3, 0x0a, 1, 0x61]) : undefined);
    });
    await using runner = openAppRunner();
    expect(await readText(runner.stream(runOf(appOn(server.backend))))).toEqual({ text: "a" });
    expect(server.paths).toEqual(["StreamRun", "Run"]);
  });

  test("after a message is a failure, and nothing is called again", async () => {
    const server = await serveFrames((stream) => {
      endWith(stream, "12");
      stream.respond(type, { waitForTrailers: true });
      stream.write(Buffer.from([0, 0, 0, 0, 0]));
      stream.once("drain", () => {}).end();
    });
    await using runner = openAppRunner();
    expect(await readText(runner.stream(runOf(appOn(server.backend))))).toMatchObject({
      refusal: { reason: "APP_FAILED" },
    });
  });

  test("by the library itself, for a message that it can't read, is a failure, and nothing is called again", async () => {
    const server = await serveFrames((stream) => {
      endWith(stream, "0");
      stream.respond({ ...type, "grpc-encoding": "snappy" }, { waitForTrailers: true });
      stream.end(Buffer.from([1, 0, 0, 0, 3, 0x0a, 1, 0x61]));
    });
    await using runner = openAppRunner();
    expect(await readText(runner.stream(runOf(appOn(server.backend))))).toMatchObject({
      refusal: { reason: "APP_FAILED", mayHaveRun: true },
    });
    expect(server.paths).toEqual(["StreamRun"]);
  });
});

describe.each([
  ["is no message of the contract", [0x0a, 9, 0x61]],
  ["is not UTF-8", [0x0a, 1, 0xff]],
])("a message that %s", (_, bytes) => {
  const unreadable = Buffer.from([0, 0, 0, 0, bytes.length, ...bytes]);
  const failed = { refusal: { reason: "APP_FAILED", mayHaveRun: true } };

  test("fails the stream after what came before", async () => {
    const server = await serveFrames((stream) => {
      endWith(stream, "0");
      stream.respond(type, { waitForTrailers: true });
      stream.write(Buffer.from([0, 0, 0, 0, 3, 0x0a, 1, 0x61]));
      stream.end(unreadable);
    });
    await using runner = openAppRunner();
    const read = await readText(runner.stream(runOf(appOn(server.backend))));
    expect(read).toMatchObject({ text: "a", ...failed });
  });

  test("fails the stream and the run that wait for it", async () => {
    const server = await serveFrames(async (stream, path) => {
      endWith(stream, path.endsWith("/StreamRun") ? "0" : "12");
      stream.respond(type, { waitForTrailers: true });
      await isAwaited.promise;
      stream.end(path.endsWith("/StreamRun") ? unreadable : undefined);
    });
    const isAwaited = Promise.withResolvers<void>();
    await using runner = openAppRunner();
    const reading = readText(runner.stream(runOf(appOn(server.backend))));
    isAwaited.resolve();
    expect(await reading).toMatchObject({ text: "", ...failed });
    expect(await refusalOf(runner.run(runOf(appOn(server.backend))))).toMatchObject(failed.refusal);
  });
});

test("Run that answers with two messages has failed", async () => {
  const server = await serveFrames((stream) => {
    endWith(stream, "0");
    stream.respond(type, { waitForTrailers: true });
    stream.end(Buffer.from([0, 0, 0, 0, 3, 0x0a, 1, 0x61, 0, 0, 0, 0, 3, 0x0a, 1, 0x62]));
  });
  await using runner = openAppRunner();
  expect(await refusalOf(runner.run(runOf(appOn(server.backend))))).toMatchObject({ reason: "APP_FAILED" });
});
