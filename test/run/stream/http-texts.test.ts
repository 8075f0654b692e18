import { lookup } from "node:dns";
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { systemClock, systemTimers } from "#src/base/clock.ts";
import { unlimitedReservation } from "#src/limit/byte-budget.ts";
import { createHttpConnections } from "#src/run/http-connections.ts";
import { beginExchange } from "#src/run/http-exchange.ts";
import { HttpTexts } from "#src/run/stream/http-texts.ts";
import {
  appOn,
  causeOf,
  openAppRunner,
  refusalOf,
  runOf,
  serveHttp,
  serveTcp,
} from "../../harness/app-backends.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { begun, readText } from "../../harness/streamed-apps.ts";

/** An app that answers each run with this body. */
const answering = (contentType: string | undefined, body: string | Buffer) =>
  serveHttp((_, response) => {
    if (contentType !== undefined) response.setHeader("content-type", contentType);
    response.end(body);
  });

/** What came of a stream, whether it began or not. */
async function streamed(runner: ReturnType<typeof openAppRunner>, app: ReturnType<typeof appOn>) {
  return await readText(runner.stream(runOf(app)));
}

const events = 'data: {"text":"a "}\n\n: ping\n\ndata: {"text":"b"}\n\n';
const lines = '{"text":"a "}\n\n{"text":"b"}\n';

test("an app is asked for a stream, and for whole JSON by a run, unless its own headers say what to ask for", async () => {
  const asked: IncomingHttpHeaders[] = [];
  await using server = await serveHttp((request, response) => {
    asked.push(request.headers);
    response.end('{"text":""}');
  });
  await using runner = openAppRunner();
  const own = { ...server.backend, headers: [{ name: "accept", value: "application/json; v=2" }] };
  await streamed(runner, appOn(server.backend));
  await runner.run(runOf(appOn(server.backend)));
  await streamed(runner, appOn(own, { id: "own" }));
  expect(asked.map(({ accept }) => accept)).toEqual([
    "text/event-stream, application/x-ndjson, application/ndjson, application/jsonl, application/json",
    "application/json",
    "application/json; v=2",
  ]);
  expect(asked[0]).toMatchObject({ "content-type": "application/json", "accept-encoding": "identity" });
});

describe("the type of the answer says its form:", () => {
  test.each([
    ["text/event-stream", events, "a b"],
    ["Text/Event-Stream ;charset=UTF-8", events, "a b"],
    ["application/x-ndjson", lines, "a b"],
    ["application/x-ndjson; charset=utf-8", lines, "a b"],
    ["application/ndjson", lines, "a b"],
    ["Application/NDJSON ;charset=utf-8", lines, "a b"],
    ["application/jsonl", lines, "a b"],
    ["application/jsonl; charset=utf-8", lines, "a b"],
    ["application/json", '{"text":"a "}', "a "],
    ["application/json; charset=utf-8", '{"text":"a "}', "a "],
    // An app that names no type, or a wrong one, can be run, so it can be streamed.
    [undefined, '{"text":"a "}', "a "],
    ["text/plain", '{"text":"a "}', "a "],
  ])("%s", async (type, body, text) => {
    await using server = await answering(type, body);
    await using runner = openAppRunner();
    expect(await streamed(runner, appOn(server.backend))).toEqual({ text });
  });

  test.each([
    ["text/html", "<p>hello</p>"],
    ["application/json", lines],
    ["text/event-stream", lines],
    ["application/x-ndjson", events],
  ])("%s with something else is APP_FAILED", async (type, body) => {
    await using server = await answering(type, body);
    await using runner = openAppRunner();
    const { text, refusal } = await streamed(runner, appOn(server.backend));
    // To the standard, a line without a colon is a field that means nothing.
    if (type === "text/event-stream") expect(text).toBe("");
    else expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
  });
});

describe("a run of an app that streams all the same gives the whole text", () => {
  test.each([
    ["text/event-stream; charset=utf-8", events],
    ["application/x-ndjson", lines],
    ["application/ndjson", lines],
    ["application/jsonl; charset=utf-8", lines],
  ])("of %s", async (type, body) => {
    await using server = await answering(type, body);
    await using runner = openAppRunner();
    expect(await runner.run(runOf(appOn(server.backend)))).toBe("a b");
  });

  test("within the bound of an app's answer, which the framing is no part of", async () => {
    await using runner = openAppRunner({ outputBytesMax: 20 });
    const piece = 'data: {"text":"é"}\n\n';
    await using within = await answering("text/event-stream", piece.repeat(10));
    expect(await runner.run(runOf(appOn(within.backend)))).toBe("é".repeat(10));
    await using beyond = await answering("text/event-stream", piece.repeat(11));
    const refusal = await refusalOf(runner.run(runOf(appOn(beyond.backend))));
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(causeOf(refusal)).toContain("more than 20 bytes");
  });

  test("and fails as the stream does: rubbish, a broken connection, the app's timeout", async () => {
    const clock = createManualClock();
    await using runner = openAppRunner({ clock, timers: clock });
    await using rubbish = await answering("text/event-stream", `${events}data: [DONE]\n\n`);
    expect(await refusalOf(runner.run(runOf(appOn(rubbish.backend))))).toMatchObject({
      reason: "APP_FAILED",
    });
    const streaming = (then: (response: ServerResponse) => void) =>
      serveHttp((_, response) => {
        response.setHeader("content-type", "text/event-stream");
        response.write(events, () => then(response));
      });
    await using broken = await streaming((response) => response.destroy());
    expect(await refusalOf(runner.run(runOf(appOn(broken.backend))))).toMatchObject({ reason: "APP_FAILED" });
    const gone = Promise.withResolvers<void>();
    await using endless = await streaming((response) => response.once("close", gone.resolve));
    const underWay = Promise.withResolvers<void>();
    const app = appOn(endless.backend, { timeoutMs: 500 });
    const late = refusalOf(runner.run(runOf(app, { answered: () => underWay.resolve() })));
    await underWay.promise;
    clock.advance(500);
    expect(await late).toMatchObject({ reason: "APP_TIMEOUT", mayHaveRun: true });
    await gone.promise;
  });
});

describe.each([
  ["server-sent events", "text/event-stream", (json: string) => `data: ${json}\n\n`],
  ["lines of JSON", "application/x-ndjson", (json: string) => `${json}\n`],
])("half an emoji at the end of a message, of an app with %s,", (_, type, framed) => {
  const saying = (...texts: string[]) =>
    answering(type, texts.map((text) => framed(JSON.stringify({ text }))).join(""));

  test.each([
    [["x\ud83d", "\ude00y"], "x😀y"],
    [["\ud83d", "\ude00"], "😀"],
    // An empty text says that the app is at work.
    [["\ud83d", "", "\ude00\ud83d", "\ude01"], "😀😁"],
  ])("is passed on with its other half: %j", async (texts, text) => {
    await using server = await saying(...texts);
    await using runner = openAppRunner();
    expect(await streamed(runner, appOn(server.backend))).toEqual({ text });
    expect(await runner.run(runOf(appOn(server.backend)))).toBe(text);
  });

  test.each([
    ["at the end", ["x\ud83d"]],
    ["before another character", ["x\ud83d", "y"]],
    ["before another first half", ["x\ud83d", "\ud83d", "\ude00"]],
    ["without a first half", ["x", "\ude00"]],
  ])("is a fault %s, after the text before it", async (_when, texts) => {
    await using server = await saying(...texts);
    await using runner = openAppRunner();
    const { text, refusal } = await streamed(runner, appOn(server.backend));
    expect({ text, refusal }).toMatchObject({
      text: "x",
      refusal: { reason: "APP_FAILED", cause: expect.stringContaining("lone surrogate") },
    });
    expect(causeOf(await refusalOf(runner.run(runOf(appOn(server.backend)))))).toContain("lone surrogate");
  });

  test("counts as the bytes of the whole one", async () => {
    await using runner = openAppRunner({ outputBytesMax: 4 * 100 });
    await using server = await saying(..."😀".repeat(100).split(""));
    expect(await runner.run(runOf(appOn(server.backend)))).toBe("😀".repeat(100));
  });
});

test.each([
  [
    "a status other than 200",
    (response: ServerResponse) => response.writeHead(201),
    events,
    "The backend answered 201, not 200.",
  ],
  [
    "a redirect",
    (response: ServerResponse) => response.writeHead(302, { location: "/other" }),
    "",
    "The backend answered 302, not 200. It redirects, and Keyrun follows no redirect.",
  ],
  [
    "a compressed answer",
    (response: ServerResponse) => response.setHeader("content-encoding", "gzip"),
    gzipSync(events),
    "The backend compressed its answer, unasked.",
  ],
])("%s is APP_FAILED before the stream begins, and the log has a cause", async (_, head, body, cause) => {
  await using server = await serveHttp((_request, response) => {
    response.setHeader("content-type", "text/event-stream");
    head(response);
    response.end(body);
  });
  await using runner = openAppRunner();
  const refusal = await refusalOf(begun(runner.stream(runOf(appOn(server.backend)))).then(() => "a stream"));
  expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
  expect(causeOf(refusal)).toContain(cause);
  expect(server.seen.requests).toBe(1);
});

describe("what comes before a fault in the same packet is delivered:", () => {
  const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";

  test.each([
    ["rubbish", `${head}\r\n${events}data: [DONE]\n\n${events}`],
    ["an error that the app tells", `${head}\r\n${events}event: error\ndata: {"message":"no"}\n\n`],
    ["an end within an event", `${head}\r\n${events}data: {"text":"c"}`],
    ["an end before the announced one", `${head}content-length: 1000\r\n\r\n${events}`],
    [
      "an end without the last chunk",
      `${head}transfer-encoding: chunked\r\n\r\n${events.length.toString(16)}\r\n${events}\r\n`,
    ],
  ])("%s", async (_, answer) => {
    await using server = await serveTcp((socket) => socket.once("data", () => socket.end(answer)));
    await using runner = openAppRunner();
    const backend = { kind: "http", url: `http://127.0.0.1:${server.port}/`, headers: [] } as const;
    const { text, refusal } = await streamed(runner, appOn(backend));
    expect(text).toBe("a b");
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
  });
});

test("a body without an end of its own, neither chunks nor a length, is whole where its connection is closed", async () => {
  const answer = `HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n${events}`;
  await using server = await serveTcp((socket) => socket.once("data", () => socket.end(answer)));
  await using runner = openAppRunner();
  const backend = { kind: "http", url: `http://127.0.0.1:${server.port}/`, headers: [] } as const;
  const { text, refusal } = await streamed(runner, appOn(backend));
  expect({ text, refusal }).toEqual({ text: "a b", refusal: undefined });
});

test("the connection of a stream that ended well serves the next one, and that of another doesn't", async () => {
  let body = events;
  await using server = await serveHttp(async (_, response) => {
    response.setHeader("content-type", "text/event-stream").end(body);
  });
  server.keepConnections();
  await using runner = openAppRunner();
  const app = appOn(server.backend);
  for (let round = 0; round < 3; round += 1) {
    expect(await streamed(runner, app)).toEqual({ text: "a b" });
    // The connection is free again a moment after the answer's last byte.
    await new Promise(setImmediate);
  }
  expect(server.seen.connections).toBe(1);
  body = `${events}data: rubbish\n\n`;
  expect(await streamed(runner, app)).toMatchObject({ refusal: { reason: "APP_FAILED" } });
  body = events;
  expect(await streamed(runner, app)).toEqual({ text: "a b" });
});

test("an app that sends comments without end is cut off at the bound of the body", async () => {
  const gone = Promise.withResolvers<void>();
  await using server = await serveHttp((_, response) => {
    response.setHeader("content-type", "text/event-stream");
    response.once("close", gone.resolve);
    const send = () => {
      while (!response.destroyed && response.write(": ping\n"));
    };
    response.on("drain", send);
    send();
  });
  const all = createHttpConnections({
    ...{ clock: systemClock, timers: systemTimers, lookup },
    ...{ connectionsMax: 1, idleAppsMax: 1 },
  });
  const connections = all.of({ id: "shout" }, new URL(server.backend.url).origin);
  const call = {
    path: "/run",
    headers: [],
    body: Buffer.from("{}"),
    deadlineMs: systemClock.monotonicMs() + 60_000,
    cleanWords: (words: string) => words,
  };
  const texts = new HttpTexts(
    { messageBytesMax: 100, bodyBytesMax: 1_000_000, reservation: unlimitedReservation },
    (reader) => beginExchange({ connections, clock: systemClock }, call, reader),
  );
  expect(await readText(texts)).toMatchObject({
    text: "",
    refusal: { reason: "APP_FAILED", mayHaveRun: true },
  });
  await gone.promise;
  all.close();
});
