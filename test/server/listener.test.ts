import { once } from "node:events";
import { connect, constants, type OutgoingHttpHeaders } from "node:http2";
import { expect, test } from "vitest";
import type { HttpDoor } from "#src/edge/http.ts";
import { isHttp2Response, type NodeResponse } from "#src/server/node-http.ts";
import { createRequestTracker } from "#src/server/request-tracker.ts";
import { cancelFrame, h2Opening, headersFrame } from "../harness/h2-frames.ts";
import { h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { answersIn, rawSocket } from "../harness/raw-socket.ts";
import { jsonAnswer, serveDoor, serveForTest as served, tellingDoor } from "../harness/served-door.ts";
import { soon } from "../harness/soon.ts";

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/** HTTP/2's preface and empty SETTINGS. */
const shortTimes = { headersMsMax: 200, requestMsMax: 400, checkIntervalMs: 50 };

function answered(count: number) {
  return (heard: string) => answersIn(heard).length >= count;
}

/** The refusal has our shape, our request id and no rate limit, and nothing comes after it. */
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

test("with the product's own limits, headers that never end are refused within 12 s", async () => {
  const { port } = await served();
  const client = rawSocket({ port });
  client.send("GET / HTTP/1.1\r\nHost: a\r\n");
  let seconds = 0;
  const trickle = setInterval(() => {
    seconds += 1;
    client.send("X-A: b\r\n");
  }, 1_000);
  const heard = await client.closed();
  clearInterval(trickle);
  expectParserRefusal(heard, 408, "request_timeout");
  // Counted by a timer beside the server's own: where the machine is late, both are.
  expect(seconds).toBeGreaterThan(5);
  expect(seconds).toBeLessThan(12);
});

test("headers that trickle are refused with 408, and so is a body that does", async () => {
  const { port, events } = await served(tellingDoor, { limits: shortTimes });
  const slowHead = rawSocket({ port });
  slowHead.send("GET / HTTP/1.1\r\nHost: a\r\n");
  expectParserRefusal(await slowHead.closed(), 408, "request_timeout");
  const slowBody = rawSocket({ port });
  slowBody.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1");
  expectParserRefusal(await slowBody.closed(), 408, "request_timeout");
  const timeout = {
    kind: "request_refused",
    code: "ERR_HTTP_REQUEST_TIMEOUT",
    reason: "REQUEST_TIMEOUT",
    address: "127.0.0.1",
  };
  expect(events).toEqual([timeout, timeout]);
});

test("over HTTP/2 a body that trickles ends its stream alone, and a handshake that does its session", async () => {
  const { url, port, listener } = await served(tellingDoor, { limits: shortTimes });
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
  await soon(() => listener.connections()).toBe(0);
});

test("an idle session is closed, and one with a request under way is not", async () => {
  let finish: () => void = () => undefined;
  const door: HttpDoor = () =>
    new Promise((resolve) => {
      finish = () => resolve(jsonAnswer(200, "at last"));
    });
  const { url, requests } = await served(door, { limits: { keepAliveMs: 1_000, checkIntervalMs: 10 } });
  const busy = await h2cSession(url);
  const answer = h2cRequest(busy, { ":path": "/" });
  await soon(() => requests.running()).toBe(1);
  for (let round = 0; round < 2; round += 1) await once(await h2cSession(url), "close");
  expect(busy.closed).toBe(false);
  finish();
  expect((await answer).status).toBe(200);
  await once(busy, "close");
});

test("half a HEADERS frame keeps no session open, even if the client never closes", async () => {
  const limits = { keepAliveMs: 1_000, checkIntervalMs: 50 };
  const { port, listener } = await served(tellingDoor, { limits });
  const client = rawSocket({ port, allowHalfOpen: true });
  client.send(h2Opening);
  // HEADERS on stream 1 that says it has 16,000 bytes, without END_HEADERS.
  client.send(Buffer.from([0, 0x3e, 0x80, 1, 0, 0, 0, 0, 1]));
  const trickle = setInterval(() => client.send(Buffer.from([0])), 50);
  await soon(() => listener.connections()).toBe(1);
  await soon(() => listener.connections()).toBe(0);
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
  // Nothing changes once the host is known.
  asManyAsMayBe.send(headersOf(65));
  expect(answersIn(await asManyAsMayBe.closed())[1]!.status).toBe(431);
});

test("over HTTP/2 header bytes and header count are bounded, and what is above never reaches a handler", async () => {
  let reached = 0;
  const { url } = await served((request) => {
    reached += 1;
    return jsonAnswer(200, request.target);
  });
  const session = await h2cSession(url);
  expect(session.remoteSettings.maxHeaderListSize).toBe(16 * 1024);
  const many = Object.fromEntries(Array.from({ length: 80 }, (_, at) => [`x-${at}`, "b"]));
  await expect(h2cRequest(session, { ":path": "/", ...many })).rejects.toThrow();
  const next = await h2cSession(url);
  const large = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`x-${at}`, "b".repeat(1024)]));
  await expect(h2cRequest(next, { ":path": "/", ...large })).rejects.toThrow();
  expect(reached).toBe(0);
  session.destroy();
  next.destroy();
});

test("over HTTP/2 the first requests, which need not know the bound, are held to it too", async () => {
  let reached = 0;
  const { url, events } = await served((request) => {
    reached += 1;
    return jsonAnswer(200, request.target);
  });
  const session = connect(url);
  session.on("error", () => undefined);
  // RFC 9113 counts 32 bytes more for each of the headers.
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
  expect(events).toMatchObject([{ kind: "request_refused", reason: "HEADERS_TOO_LARGE" }]);
  session.destroy();
});

test.each([
  ["two types", { "content-type": ["application/json", "text/plain"] }],
  ["a host beside another authority", { host: "other" }],
])("over HTTP/2 what two servers could read in two ways is refused too: %s", async (_, headers) => {
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

test("the name of the one transfer coding is read without case", async () => {
  const { port } = await served(tellingDoor);
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
  ["two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"],
  ["a space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n"],
  ["a folded header", "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n"],
  ["a bare line feed", "GET / HTTP/1.1\nHost: a\n\n"],
  ["no HTTP at all", "\u0016\u0003\u0001hello"],
])("what two servers could read in two ways is refused, and closes the connection: %s", async (_, bytes) => {
  let reached = 0;
  const { port } = await served(async (request) => {
    // The parser finds the fault in some of these only after it passed the headers on.
    if ((await request.readBody(100)).kind === "whole") reached += 1;
    return jsonAnswer(200, null);
  });
  const client = rawSocket({ port });
  client.send(Buffer.concat([Buffer.from(bytes, "latin1"), Buffer.from(get)]));
  expectParserRefusal(await client.closed(), 400, "malformed_request");
  expect(reached).toBe(0);
});

test("a fault while an answer is under way puts nothing into it, and closes the connection", async () => {
  const onRequest = (_: unknown, res: NodeResponse) => {
    if (!isHttp2Response(res)) res.writeHead(200, { "Content-Length": 1_000 }).write("begun");
  };
  const { port, events } = await served(tellingDoor, { onRequest });
  const client = rawSocket({ port });
  client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  await client.until((heard) => heard.endsWith("begun"));
  client.send("not a chunk\r\n");
  expect((await client.closed()).endsWith("\r\n\r\nbegun")).toBe(true);
  // Nobody was answered with a refusal, so none is named.
  expect(events).toEqual([{ kind: "request_refused", code: "HPE_INVALID_CHUNK_SIZE", address: "127.0.0.1" }]);
});

test("what is reported of a refused request holds nothing that the caller sent", async () => {
  const { port, events } = await served();
  const client = rawSocket({ port });
  client.send("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer svc_secret\r\nBad Name: x\r\n\r\n");
  await client.closed();
  expect(events).toEqual([
    {
      kind: "request_refused",
      code: "HPE_INVALID_HEADER_TOKEN",
      reason: "MALFORMED_REQUEST",
      address: "127.0.0.1",
    },
  ]);
});

test("an upgrade that is offered is not taken, and a CONNECT ends nothing but its connection", async () => {
  const { port } = await served();
  const upgrading = rawSocket({ port });
  upgrading.send(
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
  );
  expect(answersIn(await upgrading.until(answered(1)))[0]!.status).toBe(200);
  const connecting = rawSocket({ port });
  connecting.send("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n");
  await connecting.closed();
});

test("a connection serves as many requests as it may, says that it closes, and serves no more", async () => {
  let reached = 0;
  const door: HttpDoor = () => {
    reached += 1;
    return jsonAnswer(200, null);
  };
  const { port } = await served(door, { limits: { requestsPerConnectionMax: 3 } });
  const client = rawSocket({ port });
  for (let sent = 1; sent <= 3; sent += 1) {
    client.send(get);
    await client.until(answered(sent));
  }
  const connections = answersIn(client.heard()).map((answer) => answer.headers.get("connection"));
  expect(connections).toEqual(["keep-alive", "keep-alive", "close"]);
  client.send(get);
  await client.until((heard) => heard.includes("HTTP/1.1 503 "));
  expect(reached).toBe(3);
});

test("an idle connection is closed after what was announced to its client, and not before a request on it", async () => {
  const { port } = await served(tellingDoor, { limits: { keepAliveMs: 1_000, keepAliveGraceMs: 0 } });
  const client = rawSocket({ port });
  client.send(get);
  const [answer] = answersIn(await client.until(answered(1)));
  expect(answer!.headers.get("keep-alive")).toBe("timeout=1, max=10000");
  client.send(get);
  expect(answersIn(await client.closed())).toHaveLength(2);
});

test("what a handler throws at once is a whole 500 and a report, and the server serves on", async () => {
  const cause = new Error("thrown");
  const { port, url, events } = await served(tellingDoor, {
    onRequest(req, res) {
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
  const failed = { kind: "handler_failed", cause };
  expect(events).toMatchObject([failed, failed, failed]);
});

test("an answer that its caller does not take is given up, by either protocol", async () => {
  const large = "x".repeat(64 * 1024 * 1024);
  const limits = { stalledWriteMsMax: 300, checkIntervalMs: 50, writeBytesPerSecondMin: 2 ** 40 };
  const { port, url, requests, listener } = await served(() => ({ status: 200, headers: [], body: large }), {
    limits,
  });
  const client = rawSocket({ port });
  client.socket.pause();
  client.send(get);
  await soon(() => requests.running()).toBe(1);
  const session = await h2cSession(url);
  // Never read, so that its window stays shut.
  const stream = session.request({ ":path": "/" });
  stream.on("error", () => undefined);
  await soon(() => requests.running()).toBe(2);
  await soon(() => requests.running()).toBe(0);
  client.socket.destroy();
  session.destroy();
  await soon(() => listener.connections()).toBe(0);
});

test("a request that only waits for its answer is not a stalled one", async () => {
  let finish: () => void = () => undefined;
  const door: HttpDoor = () =>
    new Promise((resolve) => {
      finish = () => resolve(jsonAnswer(200, "late"));
    });
  const { port } = await served(door, {
    limits: { stalledWriteMsMax: 100, keepAliveMs: 100, keepAliveGraceMs: 0 },
  });
  const waiting = rawSocket({ port });
  waiting.send(get);
  // Idle ones close meanwhile, so the time is over for the waiting one, too.
  for (let round = 0; round < 3; round += 1) {
    const idle = rawSocket({ port });
    idle.send("GET");
    await idle.closed();
  }
  finish();
  await waiting.until(answered(1));
});

test("HTTP/2 grants 128 streams at once and no push", async () => {
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
  await soon(() => requests.running()).toBe(3);
  // Node's own client keeps the others back; one whose streams end sends them, and never has more than three.
  session.destroy();
  await soon(() => requests.running()).toBe(0);
});

test("a session that opens and resets streams without end is killed, and no door is asked (CVE-2023-44487)", async () => {
  let [opened, reached] = [0, 0];
  const tracker = createRequestTracker();
  const requests = {
    ...tracker,
    begin() {
      opened += 1;
      tracker.begin();
    },
  };
  const door: HttpDoor = () => {
    reached += 1;
    return new Promise(() => undefined);
  };
  const { port } = await served(door, { requests });
  const client = rawSocket({ port });
  client.send(h2Opening);
  let streamId = 1;
  const attack = () => {
    const frames: Buffer[] = [];
    for (let burst = 0; burst < 20; burst += 1, streamId += 2) frames.push(openAndReset(streamId));
    // Each burst follows the one before it, so that the server takes every stream.
    client.socket.write(
      Buffer.concat(frames),
      (error) => void (error ?? (streamId < 10_000 && setImmediate(attack))),
    );
  };
  attack();
  await client.closed();
  // Node's own defaults let some 4,200 through.
  expect(opened).toBeGreaterThan(0);
  expect(opened).toBeLessThan(1_000);
  expect(reached).toBe(0);
});

test("connections above the listener's bound are closed, and a place that is free again is given", async () => {
  const { port, events, listener } = await served(tellingDoor, { connectionsMax: 2 });
  const first = rawSocket({ port });
  const second = rawSocket({ port });
  await soon(() => listener.connections()).toBe(2);
  const third = rawSocket({ port });
  expect(await third.closed()).toBe("");
  expect(events).toEqual([{ kind: "connection_refused", by: "total", address: "127.0.0.1" }]);
  first.socket.destroy();
  await soon(() => listener.connections()).toBe(1);
  const fourth = rawSocket({ port });
  fourth.send(get);
  await fourth.until(answered(1));
  second.socket.destroy();
});

test("connections of one address are bounded, by either protocol, but not those of the loopback", async () => {
  const { port, url, events, listener } = await served(tellingDoor, {
    connectionsPerAddressMax: 2,
    isExemptAddress: () => false,
  });
  const first = rawSocket({ port });
  const session = await h2cSession(url);
  await soon(() => listener.connections()).toBe(2);
  const third = rawSocket({ port });
  expect(await third.closed()).toBe("");
  expect(events).toEqual([{ kind: "connection_refused", by: "address", address: "127.0.0.1" }]);
  session.destroy();
  first.socket.destroy();
  await soon(() => listener.connections()).toBe(0);
  const again = rawSocket({ port });
  again.send(get);
  await again.until(answered(1));

  const local = await served(tellingDoor, { connectionsPerAddressMax: 1 });
  const sockets = [rawSocket({ port: local.port }), rawSocket({ port: local.port })];
  for (const socket of sockets) socket.send(get);
  for (const socket of sockets) await socket.until(answered(1));
});

test("callers that reset their connections at every moment end nothing but those", async () => {
  const { port, listener, requests } = await served(async (request) => {
    await request.readBody(100);
    await new Promise(setImmediate);
    return jsonAnswer(200, "x".repeat(100_000));
  });
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
  await soon(() => listener.connections()).toBe(0);
  expect(requests.running()).toBe(0);
  const after = rawSocket({ port });
  after.send(get);
  await after.until(answered(1));
});

test("a port that is taken is told to who asked for it", async () => {
  const { port } = await served();
  await expect(
    serveDoor(tellingDoor).then(({ listener }) => listener.listen({ host: "127.0.0.1", port })),
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
