import { once } from "node:events";
import { connect, constants, type OutgoingHttpHeaders } from "node:http2";
import { expect, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { createRequestTracker } from "#src/server/drain.ts";
import { type Incoming, isHttp2Response } from "#src/server/node-http.ts";
import { transportLimits } from "#src/server/transport.ts";
import { cancelFrame, h2Opening, headersFrame } from "../harness/h2-frames.ts";
import { h2cAnswer, h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { openConnections, openSockets } from "../harness/open-sockets.ts";
import { answersIn, rawSocket } from "../harness/raw-socket.ts";
import { echoHandler, jsonAnswer, serveForTest as served, serveHandler } from "../harness/served-handler.ts";

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const shortTimes = { headersMsMax: 200, requestMsMax: 400, checkIntervalMs: 50 };

function answered(count: number) {
  return (heard: string) => answersIn(heard).length >= count;
}

/**
 * Checks that the refusal has the usual form, our request id and no rate limit, and that nothing
 * follows it.
 */
function expectParserRefusal(heard: string, status: number, code: string) {
  const answers = answersIn(heard);
  expect(answers).toHaveLength(1);
  const [{ headers, ...answer }] = answers as [(typeof answers)[0]];
  expect(answer.status).toBe(status);
  const { error } = JSON.parse(answer.body);
  expect(error).toMatchObject({ code, param: null, requestId: headers.get("x-request-id") });
  expect(error.requestId).toMatch(/^req_\d+$/);
  expect(headers.get("connection")).toBe("close");
  expect(Date.parse(headers.get("date") ?? "")).not.toBeNaN();
  expect([...headers.keys()].filter((name) => name.startsWith("ratelimit"))).toEqual([]);
}

test("headers that never end are refused, although more of them always come", async () => {
  const { port } = await served(echoHandler, { limits: shortTimes });
  const client = rawSocket({ port });
  client.send("GET / HTTP/1.1\r\nHost: a\r\n");
  const trickle = setInterval(() => client.send("X-A: b\r\n"), 20);
  const heard = await client.closed();
  clearInterval(trickle);
  expectParserRefusal(heard, 408, "request_timeout");
});

test("headers have 10 s, a body 30 s and a conversation a minute, checked every second", () => {
  const { headersMsMax, requestMsMax, conversationMsMax, checkIntervalMs } = transportLimits;
  expect([headersMsMax, requestMsMax, conversationMsMax, checkIntervalMs]).toEqual([
    10_000, 30_000, 60_000, 1_000,
  ]);
});

test("headers that arrive too slowly are refused with 408, and so is a slow body", async () => {
  const { port, refusals } = await served(echoHandler, { limits: shortTimes });
  const slowHead = rawSocket({ port });
  slowHead.send("GET / HTTP/1.1\r\nHost: a\r\n");
  expectParserRefusal(await slowHead.closed(), 408, "request_timeout");
  const slowBody = rawSocket({ port });
  slowBody.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1");
  expectParserRefusal(await slowBody.closed(), 408, "request_timeout");
  const timeout = { method: "ERR_HTTP_REQUEST_TIMEOUT", reason: "REQUEST_TIMEOUT", address: "127.0.0.1" };
  expect(refusals).toMatchObject([timeout, timeout]);
});

test("over HTTP/2 a slow body ends only its stream, and a slow handshake ends its session", async () => {
  const { url, port } = await served(echoHandler, { limits: shortTimes });
  const session = await h2cSession(url);
  const stream = session.request({ ":method": "POST", ":path": "/" });
  stream.write("1");
  await once(stream, "close");
  expect(stream.rstCode).toBe(constants.NGHTTP2_CANCEL);
  expect((await h2cRequest(session, { ":path": "/" })).status).toBe(200);
  session.close();
  const silent = rawSocket({ port });
  silent.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  await silent.closed();
  await expect.poll(() => openConnections(port)).toBe(0);
});

test("an idle session is closed, and one with a running request is not", async () => {
  let finish: () => void = () => undefined;
  const handler: HttpHandler = () =>
    new Promise((resolve) => {
      finish = () => resolve(jsonAnswer(200, "at last"));
    });
  const { url, requests } = await served(handler, { limits: { keepAliveMs: 1_000, checkIntervalMs: 10 } });
  const busy = await h2cSession(url);
  const answer = h2cRequest(busy, { ":path": "/" });
  await expect.poll(() => requests.running()).toBe(1);
  for (let round = 0; round < 2; round += 1) await once(await h2cSession(url), "close");
  expect(busy.closed).toBe(false);
  finish();
  expect((await answer).status).toBe(200);
  await once(busy, "close");
});

test("half a HEADERS frame does not keep a session open, even if the client never closes", async () => {
  const limits = { keepAliveMs: 1_000, checkIntervalMs: 50 };
  const { port } = await served(echoHandler, { limits });
  const client = rawSocket({ port, allowHalfOpen: true });
  client.send(h2Opening);
  // HEADERS on stream 1 with a length of 16,000 bytes, without END_HEADERS.
  client.send(Buffer.from([0, 0x3e, 0x80, 1, 0, 0, 0, 0, 1]));
  const trickle = setInterval(() => client.send(Buffer.from([0])), 50);
  await expect.poll(() => openConnections(port)).toBe(1);
  await expect.poll(() => openConnections(port)).toBe(0);
  clearInterval(trickle);
  client.socket.destroy();
});

test("header bytes and header count are bounded", async () => {
  const { port } = await served();
  const large = rawSocket({ port });
  large.send(`GET / HTTP/1.1\r\nHost: a\r\nX-Large: ${"x".repeat(17 * 1024)}\r\n\r\n`);
  expectParserRefusal(await large.closed(), 431, "headers_too_large");
  const headersOf = (count: number) => `GET / HTTP/1.1\r\nHost: a\r\n${"X-A: b\r\n".repeat(count - 1)}\r\n`;
  const many = rawSocket({ port });
  many.send(headersOf(65));
  expectParserRefusal(await many.closed(), 431, "headers_too_large");
  const asManyAsMayBe = rawSocket({ port });
  asManyAsMayBe.send(headersOf(64));
  expect(answersIn(await asManyAsMayBe.until(answered(1)))[0]!.status).toBe(200);
  // The same holds after a valid request.
  asManyAsMayBe.send(headersOf(65));
  expect(answersIn(await asManyAsMayBe.closed())[1]!.status).toBe(431);
});

test("over HTTP/2 header bytes and header count are bounded, and a request above the bound never reaches a handler", async () => {
  let reached = 0;
  const { url } = await served((request) => {
    reached += 1;
    return jsonAnswer(200, request.target);
  });
  const session = await h2cSession(url);
  expect(session.remoteSettings.maxHeaderListSize).toBe(16 * 1024);
  const many = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, "b"]));
  // The four pseudo-headers are counted too.
  for (const count of [61, 80, 400]) {
    const { status, body } = await h2cRequest(session, { ":path": "/", ...many(count) });
    expect([status, JSON.parse(body).error.code]).toEqual([431, "headers_too_large"]);
  }
  expect(reached).toBe(0);
  expect((await h2cRequest(session, { ":path": "/", ...many(60) })).status).toBe(200);
  expect(reached).toBe(1);
  // Above the number that fits into the bytes, Node itself ends the stream.
  await expect(h2cRequest(session, { ":path": "/", ...many(600) })).rejects.toThrow();
  const next = await h2cSession(url);
  const large = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`x-${at}`, "b".repeat(1024)]));
  await expect(h2cRequest(next, { ":path": "/", ...large })).rejects.toThrow();
  expect(reached).toBe(1);
  session.destroy();
  next.destroy();
});

test("over HTTP/2 the bound also holds for the first requests, whose client need not know it", async () => {
  let reached = 0;
  const { url, refusals } = await served((request) => {
    reached += 1;
    return jsonAnswer(200, request.target);
  });
  const session = connect(url);
  session.on("error", () => undefined);
  // RFC 9113 adds 32 bytes for each header.
  const others = [
    ":method",
    "GET",
    ":scheme",
    "http",
    ":path",
    "/",
    ":authority",
    new URL(url).host,
    "x-large",
  ];
  const left = 16 * 1024 - others.join("").length - 5 * 32;
  const ask = (bytes: number) => h2cRequest(session, { ":path": "/", "x-large": "b".repeat(bytes) });
  const [whole, over] = await Promise.all([ask(left), ask(left + 1)]);
  expect([whole.status, over.status, reached]).toEqual([200, 431, 1]);
  expect(JSON.parse(over.body).error.code).toBe("headers_too_large");
  expect(refusals).toMatchObject([{ reason: "HEADERS_TOO_LARGE" }]);
  session.destroy();
});

test.each([
  ["two types", { "content-type": ["application/json", "text/plain"] }],
  ["a host beside another authority", { host: "other" }],
])("over HTTP/2 a request that two servers could read in two ways is refused too: %s", async (_, headers) => {
  let reached = 0;
  const { url } = await served((request) => {
    reached += 1;
    return jsonAnswer(200, request.target);
  });
  const session = await h2cSession(url);
  const twofold: Record<string, string | string[]> = {
    ":path": "/",
    ":authority": new URL(url).host,
    ...headers,
  };
  const answer = await h2cRequest(session, twofold as OutgoingHttpHeaders);
  expect([answer.status, JSON.parse(answer.body).error.code, reached]).toEqual([400, "malformed_request", 0]);
  const { host } = new URL(url);
  const same = { ":path": "/", ":authority": host, host, "content-type": "application/json" };
  expect((await h2cRequest(session, same)).status).toBe(200);
  session.destroy();
});

test("the name of the only transfer coding is read in any case", async () => {
  const { port } = await served(echoHandler);
  const client = rawSocket({ port });
  client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n");
  expect(answersIn(await client.until(answered(1)))[0]!.status).toBe(200);
});

test.each([
  ["no Host", "GET / HTTP/1.1\r\n\r\n"],
  [
    "Transfer-Encoding and Content-Length",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
  ],
  [
    "Content-Length and Transfer-Encoding",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  ],
  ["two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"],
  ["a length that is no number", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc"],
  [
    "a coding that is not the last",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
  ],
  [
    "a coding beside chunked",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
  ],
  ["chunks over HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
  ["HTTP/2.0 in a request line", "POST / HTTP/2.0\r\nHost: a\r\n\r\n"],
  ["HTTP/0.9 with headers", "POST /\r\nHost: a\r\n\r\n"],
  ["two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"],
  ["an empty Host beside one", "GET / HTTP/1.1\r\nHost: a\r\nHost:\r\n\r\n"],
  ["a space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n"],
  ["a folded header", "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n"],
  ["a bare line feed", "GET / HTTP/1.1\nHost: a\n\n"],
  ["no HTTP at all", "\u0016\u0003\u0001hello"],
])(
  "a request that two servers could read in two ways is refused, and closes the connection: %s",
  async (_, bytes) => {
    let reached = 0;
    const { port } = await served(async (request) => {
      // The parser finds the fault in some of these only after it has passed the headers on.
      if ((await request.readBody(100)).kind === "whole") reached += 1;
      return jsonAnswer(200, null);
    });
    const client = rawSocket({ port });
    client.send(Buffer.concat([Buffer.from(bytes, "latin1"), Buffer.from(get)]));
    expectParserRefusal(await client.closed(), 400, "malformed_request");
    expect(reached).toBe(0);
  },
);

test("a parser error during an answer puts nothing into the answer, and closes the connection", async () => {
  const onRequest = ({ res }: Incoming) => {
    if (!isHttp2Response(res)) res.writeHead(200, { "Content-Length": 1_000 }).write("begun");
  };
  const { port, events } = await served(echoHandler, { onRequest });
  const client = rawSocket({ port });
  client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  await client.until((heard) => heard.endsWith("begun"));
  client.send("not a chunk\r\n");
  expect((await client.closed()).endsWith("\r\n\r\nbegun")).toBe(true);
  // No refusal was sent, so none is reported.
  expect(events).toEqual([
    { kind: "connection_failed", code: "HPE_INVALID_CHUNK_SIZE", address: "127.0.0.1" },
  ]);
});

test("the report of a refused request holds nothing that the caller sent", async () => {
  const { port, events, refusals } = await served();
  const client = rawSocket({ port });
  client.send("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer svc_secret\r\nBad Name: x\r\n\r\n");
  await client.closed();
  expect(events).toEqual([]);
  expect(refusals).toEqual([
    {
      reason: "MALFORMED_REQUEST",
      method: "HPE_INVALID_HEADER_TOKEN",
      target: "",
      address: "127.0.0.1",
      requestId: "req_1",
      cause: undefined,
    },
  ]);
});

test("an offered upgrade is not taken", async () => {
  const { port } = await served();
  const upgrading = rawSocket({ port });
  upgrading.send(
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
  );
  expect(answersIn(await upgrading.until(answered(1)))[0]!.status).toBe(200);
});

test("a CONNECT is refused in the usual form and counted, over HTTP/1.1 and HTTP/2", async () => {
  const { port, url, refusals } = await served();
  const client = rawSocket({ port });
  client.send("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n");
  expectParserRefusal(await client.closed(), 405, "method_not_allowed");
  expect(answersIn(client.heard())[0]!.headers.get("allow")).toBe("GET, HEAD, POST");
  const session = await h2cSession(url);
  const stream = session.request({ ":method": "CONNECT", ":authority": "a:80" });
  const over2 = await h2cAnswer(stream);
  expect(over2).toMatchObject({ status: 405, headers: { allow: "GET, HEAD, POST" } });
  expect(JSON.parse(over2.body).error.code).toBe("method_not_allowed");
  session.close();
  expect(refusals.map(({ reason, method, target }) => [reason, method, target])).toEqual([
    ["METHOD_NOT_ALLOWED", "CONNECT", "/"],
    ["METHOD_NOT_ALLOWED", "CONNECT", "/"],
  ]);
});

test("a CONNECT behind other requests ends them with its connection", async () => {
  const { port, requests } = await served(() => new Promise(() => undefined));
  const client = rawSocket({ port });
  client.send(`${get}${get}`);
  await expect.poll(() => requests.running()).toBe(2);
  client.send("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n");
  expectParserRefusal(await client.closed(), 405, "method_not_allowed");
  expect(answersIn(client.heard())[0]!.headers.get("x-should-retry")).toBe("false");
  await expect.poll(() => requests.running()).toBe(0);
});

test("a refusal in place of the answer to a running request says that repeating it may do its work twice", async () => {
  const limits = { requestMsMax: 1_000, headersMsMax: 1_000, checkIntervalMs: 100 };
  const { port, requests } = await served(() => new Promise(() => undefined), { limits });
  const shouldRetry = async (behind: string, before = get) => {
    const client = rawSocket({ port });
    client.send(before);
    await expect.poll(() => requests.running()).toBe(1);
    client.send(behind);
    const [answer] = answersIn(await client.closed());
    await expect.poll(() => requests.running()).toBe(0);
    return [answer?.status, answer?.headers.get("x-should-retry")];
  };
  expect(await shouldRetry("rubbish\r\n\r\n")).toEqual([400, "false"]);
  expect(await shouldRetry(`GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}\r\n\r\n`)).toEqual([431, "false"]);
  expect(await shouldRetry("GET / HTTP/1.1\r\nHo")).toEqual([408, "false"]);
  // Its own body is not whole, so no app has it.
  const upload = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  expect(await shouldRetry("rubbish\r\n", upload)).toEqual([400, undefined]);
});

test("a connection serves requests up to the bound, says that it closes, and refuses more in the usual form", async () => {
  let reached = 0;
  const handler: HttpHandler = () => {
    reached += 1;
    return jsonAnswer(200, null);
  };
  const { port, refusals } = await served(handler, { limits: { requestsPerConnectionMax: 3 } });
  const client = rawSocket({ port });
  for (let sent = 1; sent <= 3; sent += 1) {
    client.send(get);
    await client.until(answered(sent));
  }
  const connections = answersIn(client.heard()).map((answer) => answer.headers.get("connection"));
  expect(connections).toEqual(["keep-alive", "keep-alive", "close"]);
  client.send(get);
  const refused = answersIn(await client.closed());
  expect(refused).toHaveLength(4);
  expect(refused[3]!.headers.get("retry-after")).toBe("1");
  expectParserRefusal(client.heard().slice(client.heard().indexOf("HTTP/1.1 503")), 503, "unavailable");
  expect(refusals.map(({ reason }) => reason)).toEqual(["UNAVAILABLE"]);
  expect(reached).toBe(3);
});

test("requests past the bound that were pipelined are refused after the answers before them, once", async () => {
  const waiting: (() => void)[] = [];
  const handler: HttpHandler = () =>
    new Promise((resolve) => void waiting.push(() => resolve(jsonAnswer(200, null))));
  const { port, requests, refusals } = await served(handler, { limits: { requestsPerConnectionMax: 2 } });
  const client = rawSocket({ port });
  client.send(get.repeat(5));
  await expect.poll(() => waiting.length).toBe(2);
  for (const answer of waiting.toReversed()) answer();
  const answers = answersIn(await client.closed());
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 503]);
  expect(JSON.parse(answers[2]!.body).error.code).toBe("unavailable");
  expect(refusals).toHaveLength(1);
  await expect.poll(() => requests.running()).toBe(0);
});

test("an idle connection is closed after the announced time, and no request on it is lost before", async () => {
  const { port } = await served(echoHandler, { limits: { keepAliveMs: 1_000, keepAliveGraceMs: 0 } });
  const client = rawSocket({ port });
  client.send(get);
  const [answer] = answersIn(await client.until(answered(1)));
  expect(answer!.headers.get("keep-alive")).toBe("timeout=1, max=10000");
  client.send(get);
  expect(answersIn(await client.closed())).toHaveLength(2);
});

test("an error that a handler throws synchronously becomes a whole 500 and a report, and the server continues to serve", async () => {
  const cause = new Error("thrown");
  const { port, url, refusals } = await served(echoHandler, {
    onRequest({ req, res }) {
      if (req.url === "/begun" && !isHttp2Response(res)) res.writeHead(200).flushHeaders();
      if (req.url !== "/fine") throw cause;
      res.end();
    },
  });
  const client = rawSocket({ port });
  client.send(get);
  expectParserRefusal(await client.closed(), 500, "internal");
  const begun = rawSocket({ port });
  begun.send(get.replace("/", "/begun"));
  expect(await begun.closed()).not.toContain("internal");
  const session = await h2cSession(url);
  const answer = await h2cRequest(session, { ":path": "/" });
  expect([answer.status, JSON.parse(answer.body).error.code]).toEqual([500, "internal"]);
  expect((await h2cRequest(session, { ":path": "/fine" })).status).toBe(200);
  session.close();
  const failed = { reason: "INTERNAL", cause };
  expect(refusals).toMatchObject([failed, failed, failed]);
});

test("an answer that its caller does not read is given up, over HTTP/1.1 and HTTP/2", async () => {
  const large = "x".repeat(64 * 1024 * 1024);
  const limits = { stalledWriteMsMax: 300, checkIntervalMs: 50, writeBytesPerSecondMin: 2 ** 40 };
  const { port, url, requests } = await served(() => ({ status: 200, headers: [], body: large }), {
    limits,
  });
  const client = rawSocket({ port });
  client.socket.pause();
  client.send(get);
  await expect.poll(() => requests.running()).toBe(1);
  const session = await h2cSession(url);
  // Never read, so that its window stays closed.
  const stream = session.request({ ":path": "/" });
  stream.on("error", () => undefined);
  await expect.poll(() => requests.running()).toBe(2);
  await expect.poll(() => requests.running()).toBe(0);
  client.socket.destroy();
  session.destroy();
  await expect.poll(() => openConnections(port)).toBe(0);
});

test("a request that only waits for its answer is not closed as stalled", async () => {
  let finish: () => void = () => undefined;
  const handler: HttpHandler = () =>
    new Promise((resolve) => {
      finish = () => resolve(jsonAnswer(200, "late"));
    });
  const { port } = await served(handler, {
    limits: { stalledWriteMsMax: 100, keepAliveMs: 100, keepAliveGraceMs: 0 },
  });
  const waiting = rawSocket({ port });
  waiting.send(get);
  // Idle connections close meanwhile, so the time is over for the waiting one too.
  for (let round = 0; round < 3; round += 1) {
    const idle = rawSocket({ port });
    idle.send("GET");
    await idle.closed();
  }
  finish();
  await waiting.until(answered(1));
});

test("HTTP/2 allows 128 concurrent streams and no push", async () => {
  const { url } = await served();
  const session = await h2cSession(url);
  expect(session.remoteSettings).toMatchObject({ maxConcurrentStreams: 128, enablePush: false });
  session.close();
});

test("streams above the bound are refused", async () => {
  const { url, requests } = await served(() => new Promise(() => undefined), {
    limits: { concurrentStreamsMax: 3 },
  });
  const session = await h2cSession(url);
  for (let opened = 0; opened < 5; opened += 1)
    session.request({ ":path": "/" }).on("error", () => undefined);
  await expect.poll(() => requests.running()).toBe(3);
  // Node's own client holds the other requests back. As streams end it sends them, and never has
  // more than three open.
  session.destroy();
  await expect.poll(() => requests.running()).toBe(0);
});

test("a session that opens and resets streams without end is closed, and no request reaches a handler (CVE-2023-44487)", async () => {
  let [opened, reached] = [0, 0];
  const tracker = createRequestTracker();
  const requests = {
    ...tracker,
    begin() {
      opened += 1;
      tracker.begin();
    },
  };
  const handler: HttpHandler = () => {
    reached += 1;
    return new Promise(() => undefined);
  };
  // However long the attack takes, it earns nearly nothing back.
  const { port } = await served(handler, { requests, limits: { streamResetsPerSecond: 1 } });
  const client = rawSocket({ port });
  client.send(h2Opening);
  let streamId = 1;
  const attack = () => {
    const frames: Buffer[] = [];
    for (let burst = 0; burst < 20; burst += 1, streamId += 2) frames.push(openAndReset(streamId));
    // Each burst is sent after the one before it, so that the server accepts every stream.
    client.socket.write(
      Buffer.concat(frames),
      (error) => void (error ?? (streamId < 10_000 && setImmediate(attack))),
    );
  };
  attack();
  await client.closed();
  // Node's own defaults would allow about 4,200.
  expect(opened).toBeGreaterThan(0);
  expect(opened).toBeLessThan(1_000);
  expect(reached).toBe(0);
});

test("connections above the listener's bound are closed, and a freed place is used again", async () => {
  const { port, events } = await served(echoHandler, { connectionsMax: 2 });
  const first = rawSocket({ port });
  const second = rawSocket({ port });
  await expect.poll(() => openConnections(port)).toBe(2);
  const third = rawSocket({ port });
  expect(await third.closed()).toBe("");
  expect(events).toEqual([{ kind: "connection_refused", by: "total", address: "127.0.0.1" }]);
  first.socket.destroy();
  await expect.poll(() => openConnections(port)).toBe(1);
  const fourth = rawSocket({ port });
  fourth.send(get);
  await fourth.until(answered(1));
  second.socket.destroy();
});

test("the connections of one address are bounded, over HTTP/1.1 and HTTP/2, but not those of the loopback", async () => {
  const { port, url, events } = await served(echoHandler, {
    connectionsPerAddressMax: 2,
    isExemptAddress: () => false,
  });
  const first = rawSocket({ port });
  const session = await h2cSession(url);
  await expect.poll(() => openConnections(port)).toBe(2);
  const third = rawSocket({ port });
  expect(await third.closed()).toBe("");
  expect(events).toEqual([{ kind: "connection_refused", by: "address", address: "127.0.0.1" }]);
  session.destroy();
  first.socket.destroy();
  await expect.poll(() => openConnections(port)).toBe(0);
  const again = rawSocket({ port });
  again.send(get);
  await again.until(answered(1));

  const local = await served(echoHandler, { connectionsPerAddressMax: 1 });
  const sockets = [rawSocket({ port: local.port }), rawSocket({ port: local.port })];
  for (const socket of sockets) socket.send(get);
  for (const socket of sockets) await socket.until(answered(1));
});

test("callers that reset their connections at any moment end only those connections", async () => {
  const { port, requests } = await served(async (request) => {
    await request.readBody(100);
    await new Promise(setImmediate);
    return jsonAnswer(200, "x".repeat(100_000));
  });
  const socketsBefore = openSockets();
  const moments = [
    "",
    "P",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET / HT",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1",
    get,
  ];
  for (let round = 0; round < 20; round += 1) {
    await Promise.all(
      moments.map(async (bytes) => {
        const client = rawSocket({ port });
        client.send(bytes);
        await once(client.socket, "connect");
        if (round % 2 === 0) await new Promise(setImmediate);
        client.socket.resetAndDestroy();
        await client.closed();
      }),
    );
  }
  await expect.poll(openSockets).toBeLessThanOrEqual(socketsBefore);
  expect(openConnections(port)).toBe(0);
  expect(requests.running()).toBe(0);
  const after = rawSocket({ port });
  after.send(get);
  await after.until(answered(1));
});

test("listen rejects if the port is taken", async () => {
  const { port } = await served();
  await expect(
    serveHandler(echoHandler).then(({ listener }) => listener.listen({ host: "127.0.0.1", port })),
  ).rejects.toThrow();
});

/** HEADERS of a `GET /` without a body, and RST_STREAM with CANCEL. */
function openAndReset(stream: number): Buffer {
  const headers = [
    [":method", "GET"],
    [":scheme", "http"],
    [":path", "/"],
    [":authority", "a"],
  ] as const;
  return Buffer.concat([headersFrame(stream, headers), cancelFrame(stream)]);
}
