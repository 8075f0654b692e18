import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";
import { expect, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { type TransportLimits, transportLimits } from "#src/server/transport.ts";
import { UnreadAnswers } from "#src/server/unread-answers.ts";
import { h2cAnswer, h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { answersIn, rawSocket } from "../harness/raw-socket.ts";
import { type ServedHandlerOptions, serveForTest } from "../harness/served-handler.ts";

const answerBytes = 10_000;

/** Answers with as many bytes as the path says. */
const sized: HttpHandler = (request) => {
  const bytes = Number(request.target.slice(1));
  return { status: 200, headers: [], body: Buffer.alloc(bytes, "x") };
};

/** Limits without the cost of each answer, so that a test can count. No check happens by itself. */
const base = {
  unreadAnswerBytes: 0,
  littleUnreadBytesMax: 0,
  checkIntervalMs: 3_600_000,
} satisfies Partial<TransportLimits>;

async function served(limits: Partial<TransportLimits>, handler = sized, options: ServedHandlerOptions = {}) {
  const all = { ...base, ...limits };
  const unread = new UnreadAnswers({ ...transportLimits, ...all });
  const running = await serveForTest(handler, { ...options, limits: all, unread });
  return { ...running, unread };
}

/** A session whose streams read nothing until `session.settings` opens their window. */
async function shutSession(url: string): Promise<ClientHttp2Session> {
  const session = connect(url, { settings: { initialWindowSize: 0 } });
  session.on("error", () => undefined);
  await once(session, "remoteSettings");
  return session;
}

const path = (bytes: number) => ({ ":path": `/${bytes}` });

test("past its own bound a session is refused new streams before its handler, and served again when it has read", async () => {
  let handled = 0;
  const counting: HttpHandler = (request) => {
    handled += 1;
    return sized(request);
  };
  const { url, unread } = await served({ unreadBytesPerConnectionMax: answerBytes }, counting);
  const shut = await shutSession(url);
  const held = h2cAnswer(shut.request(path(answerBytes)));
  await expect.poll(() => unread.bytes).toBe(answerBytes);

  const refused = shut.request({ ":method": "POST", ":path": "/1" }).end();
  const [head] = await once(refused, "response");
  expect([head[":status"], head["retry-after"], head["x-should-retry"]]).toEqual([503, "1", undefined]);
  expect(handled).toBe(1);

  const other = await h2cSession(url);
  expect((await h2cRequest(other, path(1))).status).toBe(200);
  shut.settings({ initialWindowSize: 65_535 });
  expect((await held).body).toHaveLength(answerBytes);
  await expect.poll(() => unread.bytes).toBe(0);
  expect((await h2cRequest(shut, path(1))).status).toBe(200);
  for (const session of [shut, other]) session.destroy();
});

test("an answer for which the process has no room is replaced by a refusal that says whether the app may have run", async () => {
  const { url, port, unread, refusals, successes } = await served({ unreadBytesMax: 2 * answerBytes });
  const shut = await shutSession(url);
  shut.request(path(answerBytes)).on("error", () => undefined);
  await expect.poll(() => unread.bytes).toBe(answerBytes);

  const over2 = await h2cSession(url);
  const post = await h2cRequest(over2, { ":method": "POST", ...path(answerBytes) });
  expect([post.status, post.headers["x-should-retry"]]).toEqual([503, "false"]);
  const get = await h2cRequest(over2, path(answerBytes));
  expect([get.status, get.headers["x-should-retry"]]).toEqual([503, undefined]);
  const over1 = rawSocket({ port });
  over1.send(`POST /${answerBytes} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
  const [answer] = answersIn(await over1.closed());
  expect([answer?.status, answer?.headers.get("x-should-retry")]).toEqual([503, "false"]);
  expect(JSON.parse(answer?.body ?? "").error.code).toBe("unavailable");

  expect((await h2cRequest(over2, path(1))).status).toBe(200);
  expect(refusals.map(({ reason }) => reason)).toEqual(["UNAVAILABLE", "UNAVAILABLE", "UNAVAILABLE"]);
  expect(successes).toHaveLength(2);
  for (const session of [shut, over2]) session.destroy();
  await expect.poll(() => unread.bytes).toBe(0);
});

test("the last quarter of the room is kept for connections that hold little", async () => {
  const limits = { unreadBytesMax: 4 * answerBytes, littleUnreadBytesMax: answerBytes };
  const { url, unread } = await served(limits);
  const shut = await shutSession(url);
  for (let at = 0; at < 3; at += 1) shut.request(path(answerBytes)).on("error", () => undefined);
  await expect.poll(() => unread.bytes).toBe(3 * answerBytes);

  const [refused] = await once(shut.request(path(1)), "response");
  expect(refused[":status"]).toBe(503);
  const other = await h2cSession(url);
  expect((await h2cRequest(other, path(answerBytes))).status).toBe(200);
  expect((await h2cRequest(other, path(answerBytes + 1))).status).toBe(503);
  for (const session of [shut, other]) session.destroy();
});

test("a chunk of a stream that its process has no room for ends the stream, and nothing of it counts any more", async () => {
  const endless: HttpHandler = () => {
    const body = async function* () {
      for (;;) yield Buffer.alloc(100_000);
    };
    return { status: 200, headers: [], body: body() };
  };
  const { url, unread } = await served({ unreadBytesMax: 60_000 }, endless);
  const shut = await shutSession(url);
  const stream = shut.request({ ":path": "/" }).on("error", () => undefined);
  await new Promise<void>((resolve) => stream.once("close", resolve));
  expect(stream.rstCode).not.toBe(0);
  await expect.poll(() => unread.bytes).toBe(0);
  shut.destroy();
});

test("a connection that pipelines more requests than it may have at once is closed, and runs none of those", async () => {
  let handled = 0;
  const handler: HttpHandler = () => {
    handled += 1;
    return { status: 200, headers: [], body: "" };
  };
  const { port, events, unread, requests } = await served({ concurrentStreamsMax: 4 }, handler);
  const four = rawSocket({ port });
  four.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(4));
  await four.until((heard) => answersIn(heard).length === 4);
  const five = rawSocket({ port });
  five.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5));
  await five.closed();
  expect(handled).toBe(4);
  expect(events).toEqual([expect.objectContaining({ kind: "connection_closed", by: "pipelined_requests" })]);
  await expect.poll(() => [requests.running(), unread.bytes]).toEqual([0, 0]);
  four.socket.destroy();
});
