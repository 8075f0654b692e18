import { Agent, request as httpRequest } from "node:http";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { fail, Refusal } from "#src/refusal/refusal.ts";
import { type Abortable, createRequestTracker, type RequestTracker } from "#src/server/drain.ts";
import { collectGarbage } from "../../harness/collect-garbage.ts";
import { h2cAnswer, h2cRequest, h2cSession } from "../../harness/h2c-client.ts";
import { openConnections } from "../../harness/open-sockets.ts";
import { answersIn, rawSocket } from "../../harness/raw-socket.ts";
import { echoHandler, jsonAnswer, serveForTest as served } from "../../harness/served-handler.ts";

const refusing: HttpHandler = () => jsonAnswer(401, { refused: true });
const mebibyte = Buffer.alloc(1024 * 1024, "x");

function post(headers: readonly string[], body = "") {
  return `POST /api/apps/echo/run HTTP/1.1\r\nHost: a\r\n${headers.map((h) => `${h}\r\n`).join("")}\r\n${body}`;
}

function answered(count: number) {
  return (heard: string) => answersIn(heard).length >= count;
}

test("over HTTP/1.1 the handler gets the request as it arrived, and its answer is sent with length, date and keep-alive", async () => {
  const { port } = await served(echoHandler);
  const client = rawSocket({ port });
  client.send(post(["X-Request-Id: mine-1", "Content-Length: 5"], "hello"));
  const [answer] = answersIn(await client.until(answered(1)));
  expect(answer!.status).toBe(200);
  expect(JSON.parse(answer!.body)).toEqual({
    method: "POST",
    target: "/api/apps/echo/run",
    address: "127.0.0.1",
    requestId: "mine-1",
    authorizations: [],
    body: "hello",
  });
  expect(answer!.headers.get("content-length")).toBe(String(answer!.body.length));
  expect(Date.parse(answer!.headers.get("date")!)).not.toBeNaN();
  expect(answer!.headers.get("connection")).toBe("keep-alive");
  expect(answer!.headers.get("keep-alive")).toBe("timeout=65, max=10000");
});

test("over HTTP/2 the handler gets the request as it arrived, and its answer is sent without the headers that HTTP/2 forbids", async () => {
  const { url } = await served(echoHandler);
  const session = await h2cSession(url);
  const path = "/api/apps/echo/run?a=b";
  const answer = await h2cRequest(session, { ":method": "POST", ":path": path, "x-request-id": "m2" }, "hey");
  expect(answer.status).toBe(200);
  expect(JSON.parse(answer.body)).toMatchObject({
    method: "POST",
    target: path,
    requestId: "m2",
    body: "hey",
  });
  expect(answer.headers["content-length"]).toBe(String(answer.body.length));
  expect(answer.headers.date).toBeDefined();
  expect(answer.headers.connection).toBeUndefined();
  const withoutBody = await h2cRequest(session, { ":path": "/x" });
  expect(JSON.parse(withoutBody.body)).toMatchObject({ method: "GET", body: "" });
  session.close();
});

test("the handler gets both of two Authorization headers, over HTTP/1.1 and HTTP/2", async () => {
  const { port, url } = await served(echoHandler);
  const client = rawSocket({ port });
  client.send(post(["authorization: Bearer one", "AUTHORIZATION: Bearer two", "Content-Length: 0"]));
  const [answer] = answersIn(await client.until(answered(1)));
  expect(JSON.parse(answer!.body).authorizations).toEqual(["Bearer one", "Bearer two"]);

  const session = await h2cSession(url);
  const stream = session.request([
    ...[":method", "GET", ":path", "/", ":scheme", "http", ":authority", "a"],
    ...["authorization", "Bearer one", "authorization", "Bearer two"],
  ] as never);
  stream.end();
  expect(JSON.parse((await h2cAnswer(stream)).body).authorizations).toEqual(["Bearer one", "Bearer two"]);
  session.close();
});

test.each([
  ...["", "a b", "ü", "x".repeat(129), "a, b"],
  ...[`svc_${"0".repeat(24)}.${"Qz7".repeat(16)}1`, `id-${"Qz7".repeat(16)}1`, "qz7".repeat(16)],
])("a request id of the wrong form, or that may be a key, is replaced: %j", async (id) => {
  const { port } = await served(echoHandler);
  const client = rawSocket({ port });
  client.send(Buffer.from(post([`X-Request-Id: ${id}`, "Content-Length: 0"])));
  const [answer] = answersIn(await client.until(answered(1)));
  expect(JSON.parse(answer!.body).requestId).toBe("req_1");
});

test("an absolute target is read as its path", async () => {
  const { port } = await served(echoHandler);
  const client = rawSocket({ port });
  client.send("GET http://a.example/x?y=1 HTTP/1.1\r\nHost: a.example\r\n\r\n");
  client.send("GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n");
  client.send("OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n");
  const targets = answersIn(await client.until(answered(3))).map((answer) => JSON.parse(answer.body).target);
  expect(targets).toEqual(["/x?y=1", "/", "/*"]);
});

test("X-Forwarded-For is ignored unless a proxy is trusted, and that is reported once", async () => {
  const { port, events } = await served(echoHandler);
  const client = rawSocket({ port });
  for (let sent = 0; sent < 2; sent += 1)
    client.send(post(["X-Forwarded-For: 192.0.2.7", "Content-Length: 0"]));
  const answers = answersIn(await client.until(answered(2)));
  expect(answers.map((answer) => JSON.parse(answer.body).address)).toEqual(["127.0.0.1", "127.0.0.1"]);
  expect(events).toEqual([{ kind: "untrusted_forwarded_for" }]);

  const trusting = await served(echoHandler, { trustProxyHops: 1 });
  const behind = rawSocket({ port: trusting.port });
  behind.send(post(["X-Forwarded-For: 192.0.2.7", "Content-Length: 0"]));
  const [answer] = answersIn(await behind.until(answered(1)));
  expect(JSON.parse(answer!.body).address).toBe("192.0.2.7");
  expect(trusting.events).toEqual([]);
});

test("a trusted entry of X-Forwarded-For that can't be read is reported once, without its text", async () => {
  const { port, events } = await served(echoHandler, { trustProxyHops: 1 });
  const client = rawSocket({ port });
  for (const entry of ["unknown", "192.0.2.7:51234", "still-unknown"])
    client.send(post([`X-Forwarded-For: ${entry}`, "Content-Length: 0"]));
  const answers = answersIn(await client.until(answered(3)));
  const addresses = answers.map((answer) => JSON.parse(answer.body).address);
  expect(addresses).toEqual(["127.0.0.1", "192.0.2.7", "127.0.0.1"]);
  expect(events).toEqual([{ kind: "unread_forwarded_for" }]);
});

test("a body is read up to its bound and no byte further, whether its length was announced or not", async () => {
  const handler: HttpHandler = async (request) => jsonAnswer(200, (await request.readBody(4)).kind);
  const { port, url } = await served(handler);
  const client = rawSocket({ port });
  client.send(post(["Content-Length: 4"], "1234"));
  client.send(post(["Content-Length: 5"], "12345"));
  client.send(post(["Transfer-Encoding: chunked"], "2\r\n12\r\n2\r\n34\r\n0\r\n\r\n"));
  client.send(post(["Transfer-Encoding: chunked"], "2\r\n12\r\n3\r\n345\r\n0\r\n\r\n"));
  const kinds = answersIn(await client.until(answered(4))).map((answer) => JSON.parse(answer.body));
  expect(kinds).toEqual(["whole", "too_large", "whole", "too_large"]);

  const session = await h2cSession(url);
  const over2 = async (body: string, headers = {}) =>
    JSON.parse((await h2cRequest(session, { ":method": "POST", ...headers }, body)).body);
  expect(await over2("1234")).toBe("whole");
  expect(await over2("12345")).toBe("too_large");
  expect(await over2("12345", { "content-length": 5 })).toBe("too_large");
  session.close();
});

test("a body that came with its head is read synchronously, and any other body is awaited", async () => {
  const atOnce: boolean[] = [];
  const handler: HttpHandler = async (request) => {
    const body = request.readBody(100);
    atOnce.push(!(body instanceof Promise));
    const outcome = await body;
    return jsonAnswer(200, outcome.kind === "whole" ? Buffer.from(outcome.bytes).toString() : outcome.kind);
  };
  const { port } = await served(handler);
  const client = rawSocket({ port });
  const bodies = async (count: number) =>
    answersIn(await client.until(answered(count))).map((answer) => JSON.parse(answer.body));
  client.send(post(["Content-Length: 5"], "hello") + post(["Content-Length: 0"]) + post([]));
  expect(await bodies(3)).toEqual(["hello", "", ""]);
  client.send(post(["Transfer-Encoding: chunked"], "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"));
  expect((await bodies(4))[3]).toBe("hello");
  client.send(post(["Content-Length: 5"], "he"));
  await expect.poll(() => atOnce.length).toBe(5);
  client.send("llo");
  expect((await bodies(5))[4]).toBe("hello");
  expect(atOnce).toEqual([true, true, true, true, false]);
});

test("a body that is read after its caller has disconnected is gone, and no request is left running", async () => {
  let ask = () => {};
  const outcomes: string[] = [];
  const handler: HttpHandler = async (request) => {
    await new Promise<void>((resolve) => {
      ask = resolve;
    });
    outcomes.push((await request.readBody(100)).kind);
    return jsonAnswer(200, "done");
  };
  const { port, requests } = await served(handler);
  for (const body of ["12345", "123"]) {
    const client = rawSocket({ port });
    ask = () => {};
    const idle = ask;
    client.send(post(["Content-Length: 5"], body));
    await expect.poll(() => ask !== idle).toBe(true);
    client.socket.resetAndDestroy();
    await expect.poll(() => requests.running()).toBe(0);
    ask();
  }
  await expect.poll(() => outcomes).toEqual(["gone", "gone"]);
  expect(requests.running()).toBe(0);
});

test("a request does not reach its handler after the connection was answered with a parser's refusal", async () => {
  let taken = 0;
  const { port } = await served(() => {
    taken += 1;
    return jsonAnswer(200, "run");
  });
  for (const behind of ["\x00garbage\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"]) {
    const client = rawSocket({ port });
    client.send(post(["Content-Length: 2"], "{}") + behind);
    expect(answersIn(await client.closed()).map(({ status }) => status)).toEqual([400]);
  }
  expect(taken).toBe(0);
});

test("a body that arrives byte by byte is read whole, and takes little more memory than its bytes", async () => {
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, at) => at % 251));
  const handler: HttpHandler = async (request) => {
    const body = await request.readBody(bytes.length);
    return jsonAnswer(200, body.kind === "whole" && bytes.equals(body.bytes));
  };
  const { port, requests } = await served(handler);
  const client = rawSocket({ port });
  const chunks = Buffer.concat(Array.from(bytes, (byte) => Buffer.from([0x31, 13, 10, byte, 13, 10])));
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  client.send(post(["Transfer-Encoding: chunked"]));
  await expect.poll(() => requests.running()).toBe(1);
  client.send(chunks);
  await expect.poll(() => client.socket.writableLength).toBe(0);
  await expect
    .poll(() => {
      collectGarbage();
      return process.memoryUsage().heapUsed - before < 20 * 1024 * 1024;
    })
    .toBe(true);
  expect(requests.running()).toBe(1);
  client.send("0\r\n\r\n");
  expect(answersIn(await client.until(answered(1)))[0]!.body).toBe("true");
});

test("a body that its handler no longer awaits is freed with the answer", async () => {
  const bodies: unknown[] = [];
  const handler: HttpHandler = (request) => {
    void Promise.resolve(request.readBody(100)).then((body) => bodies.push(body));
    return jsonAnswer(200, "early");
  };
  const { port } = await served(handler);
  const client = rawSocket({ port });
  client.send(post(["Content-Length: 10"], "12345"));
  await client.until(answered(1));
  await expect.poll(() => bodies).toEqual([{ kind: "gone" }]);
  client.send(`67890${post(["Content-Length: 0"])}`);
  await client.until(answered(2));
});

test("a body whose connection breaks off is gone, and the next request on another connection is served", async () => {
  let outcome = "";
  const handler: HttpHandler = async (request) => {
    const body = request.readBody(100);
    outcome = "reading";
    outcome = (await body).kind;
    return jsonAnswer(200, outcome);
  };
  const { port, requests } = await served(handler);
  const client = rawSocket({ port });
  client.send(post(["Content-Length: 10"], "12345"));
  // A request counts as running before its handler is called.
  await expect.poll(() => outcome).toBe("reading");
  client.socket.resetAndDestroy();
  await expect.poll(() => outcome).toBe("gone");
  await expect.poll(() => requests.running()).toBe(0);
  const next = rawSocket({ port });
  next.send(post(["Content-Length: 1"], "1"));
  await next.until(answered(1));
});

test("an upload of 5 MiB that is refused unread is answered at once, and its connection stays usable", async () => {
  const { port } = await served(refusing);
  const client = rawSocket({ port });
  client.send(post([`Content-Length: ${5 * mebibyte.length}`]));
  client.send(mebibyte.subarray(0, 1000));
  const [early] = answersIn(await client.until(answered(1)));
  expect(early!.status).toBe(401);
  expect(early!.headers.get("connection")).toBe("keep-alive");
  client.send(mebibyte.subarray(1000));
  for (let sent = 1; sent < 5; sent += 1) client.send(mebibyte);
  client.send(post(["Content-Length: 2"], "{}"));
  expect(answersIn(await client.until(answered(2)))).toHaveLength(2);
});

test("Node's own client gets the answer to an upload that is refused unread, and reuses its connection", async () => {
  const { port } = await served(refusing);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const upload = () =>
    new Promise<{ status: number; localPort: number }>((resolve, reject) => {
      const req = httpRequest({ port, host: "127.0.0.1", method: "POST", agent }, (res) => {
        const localPort = req.socket!.localPort!;
        res.resume().on("end", () => resolve({ status: res.statusCode!, localPort }));
      });
      req.on("error", reject);
      for (let sent = 0; sent < 5; sent += 1) req.write(mebibyte);
      req.end();
    });
  const [first, second] = [await upload(), await upload()];
  expect([first.status, second.status]).toEqual([401, 401]);
  expect(second.localPort).toBe(first.localPort);
  agent.destroy();
});

test("a caller that sends Connection: close with a refused upload gets the answer and no reset", async () => {
  const { port } = await served(refusing);
  const client = rawSocket({ port });
  let failed: unknown;
  client.socket.on("error", (error) => {
    failed = error;
  });
  client.send(post(["Connection: close", `Content-Length: ${3 * mebibyte.length}`]));
  await client.until(answered(1));
  for (let sent = 0; sent < 3; sent += 1) client.send(mebibyte);
  expect(answersIn(await client.closed())[0]!.headers.get("connection")).toBe("close");
  expect(failed).toBeUndefined();
});

test("a refused upload is read only up to the bound, and then its connection closes", async () => {
  const { port } = await served(refusing, { limits: { drainedBodyBytesMax: 2 * mebibyte.length } });
  const client = rawSocket({ port });
  client.send(post([`Content-Length: ${64 * mebibyte.length}`]));
  expect(answersIn(await client.until(answered(1)))[0]!.status).toBe(401);
  // Like a real client, it sends for as long as the connection accepts bytes.
  const feed = () => client.socket.write(mebibyte, (error) => void (error ?? feed()));
  feed();
  await client.closed();
  expect(client.socket.bytesWritten).toBeLessThan(64 * mebibyte.length);
});

test("a refused upload is read only up to the bound of its chunks, and then its connection closes", async () => {
  const { port } = await served(refusing, { limits: { drainedBodyChunksMax: 10 } });
  const upload = async (chunks: number) => {
    const client = rawSocket({ port });
    client.send(post(["Transfer-Encoding: chunked"]));
    await client.until(answered(1));
    client.send("1\r\nx\r\n".repeat(chunks));
    return client;
  };
  const ten = await upload(10);
  ten.send(`0\r\n\r\n${post(["Content-Length: 0"])}`);
  await ten.until(answered(2));
  ten.socket.destroy();
  const eleven = await upload(11);
  const [answer, ...others] = answersIn(await eleven.closed());
  expect([answer?.status, others]).toEqual([401, []]);
});

test("a refused upload that arrives too slowly is cut off after the time limit, over HTTP/1.1 and HTTP/2", async () => {
  const { port, url } = await served(refusing, { limits: { drainedBodyMsMax: 200 } });
  const client = rawSocket({ port });
  client.send(post(["Content-Length: 100"], "1"));
  await client.until(answered(1));
  await client.closed();

  const session = await h2cSession(url);
  const stream = session.request({ ":method": "POST", ":path": "/" });
  stream.write("1");
  expect((await h2cAnswer(stream)).status).toBe(401);
  // The other streams of the session must not be affected.
  expect((await h2cRequest(session, { ":path": "/" })).status).toBe(401);
  session.close();
  await expect.poll(() => openConnections(port)).toBe(0);
});

test("a caller that is refused its 100 may begin its upload within a time limit, and end it within a longer one", async () => {
  const limits = { unaskedBodyMsMax: 200, drainedBodyMsMax: 600_000 };
  const { port } = await served(refusing, { limits });
  const uploads = rawSocket({ port });
  uploads.send(post(["Expect: 100-continue", "Content-Length: 100"], "1"));
  await uploads.until(answered(1));
  const waits = rawSocket({ port });
  waits.send(post(["Expect: 100-continue", "Content-Length: 100"]));
  expect(answersIn(await waits.closed()).map(({ status }) => status)).toEqual([401]);
  await expect.poll(() => openConnections(port)).toBe(1);
  uploads.send("1".repeat(99));
  expect(answersIn(await uploads.closed()).map(({ status }) => status)).toEqual([401]);
});

test("an HTTP/2 upload that is refused unread is answered at once, and may still be finished", async () => {
  const { url } = await served(refusing);
  const session = await h2cSession(url);
  const stream = session.request({ ":method": "POST", ":path": "/" }, { waitForTrailers: true });
  stream.write("begun");
  await new Promise((resolve) => stream.once("response", resolve));
  for (let sent = 0; sent < 5; sent += 1) stream.write(mebibyte);
  // Node's client emits this event after the last byte of the body was sent.
  const uploaded = new Promise((resolve) => stream.once("wantTrailers", resolve));
  stream.end().resume();
  await uploaded;
  stream.sendTrailers({});
  await new Promise((resolve) => stream.once("close", resolve));
  expect(stream.rstCode).toBe(0);
  session.close();
});

test("a caller that waits for a 100 gets it only if the handler reads the body", async () => {
  const { port } = await served(echoHandler);
  const client = rawSocket({ port });
  client.send(post(["Expect: 100-continue", "Content-Length: 5"]));
  expect(await client.until((heard) => heard.endsWith("\r\n\r\n"))).toBe("HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  await client.until((heard) => heard.includes('"body":"hello"'));
  // A caller that does not wait gets it too, and keeps its connection.
  client.send(post(["Expect: 100-continue", "Content-Length: 5"], "again"));
  const heard = await client.until((all) => all.includes('"body":"again"'));
  expect(heard.split("HTTP/1.1 100 Continue\r\n\r\n")).toHaveLength(3);
  expect(heard).not.toContain("Connection: close");

  const handler: HttpHandler = async (request) => jsonAnswer(200, (await request.readBody(4)).kind);
  const limits = { unaskedBodyMsMax: 600_000 };
  for (const unwilling of [await served(refusing, { limits }), await served(handler, { limits })]) {
    const refused = rawSocket({ port: unwilling.port });
    const errors: Error[] = [];
    refused.socket.on("error", (error) => errors.push(error));
    refused.send(post(["Expect: 100-continue", "Content-Length: 5000000"]));
    const refusal = await refused.until(answered(1));
    expect(refusal).not.toContain("100 Continue");
    expect(refusal).toContain("Connection: close");
    // A caller that does not wait for the 100 can end its upload, and reads the answer.
    refused.send(Buffer.alloc(5_000_000, "x"));
    await refused.closed();
    expect(errors).toEqual([]);
  }
});

test.each([
  ["sent at once", async () => ({ ...jsonAnswer(200, ""), body: Buffer.from("second") })],
  ["streamed", async () => ({ ...jsonAnswer(200, ""), body: chunksOf(Buffer.from("second")) })],
])(
  "a 100 that waits behind an answer comes before the head of its own answer, which is %s",
  async (_, second) => {
    const first = Promise.withResolvers<void>();
    const { port, requests } = await served(async (request) => {
      await request.readBody(100);
      if (request.header("expect") === undefined) await first.promise;
      return request.header("expect") === undefined ? jsonAnswer(200, "first") : second();
    });
    const client = rawSocket({ port });
    client.send(post(["Content-Length: 0"]) + post(["Expect: 100-continue", "Content-Length: 5"], "hello"));
    await expect.poll(() => requests.running()).toBe(2);
    await setImmediate();
    first.resolve();
    const heard = await client.until((all) => all.includes("second"));
    const parts = heard.split("HTTP/1.1 ").map((part) => part.slice(0, 3));
    expect(parts).toEqual(["", "200", "100", "200"]);
    expect(heard.indexOf("100 Continue")).toBeGreaterThan(heard.indexOf("first"));
    expect(heard).toContain("100 Continue\r\n\r\nHTTP/1.1 200 OK");
  },
);

async function* chunksOf(bytes: Uint8Array) {
  yield bytes;
}

test("a caller that disconnects aborts its request's signal as CANCELLED, but not after the answer", async () => {
  const signals: AbortSignal[] = [];
  let release: () => void = () => undefined;
  const held: HttpHandler = async (request) => {
    await request.readBody(100);
    signals.push(request.signal);
    await new Promise<void>((resolve) => {
      release = resolve;
      request.signal.addEventListener("abort", () => resolve());
    });
    return jsonAnswer(200, "done");
  };
  const { port, url, requests } = await served(held);
  const client = rawSocket({ port });
  client.send(post(["Content-Length: 0"]));
  await expect.poll(() => signals.length).toBe(1);
  client.socket.resetAndDestroy();
  await expect.poll(() => signals[0]!.aborted).toBe(true);
  expect(signals[0]!.reason).toBeInstanceOf(Refusal);
  expect(signals[0]!.reason.reason).toBe("CANCELLED");

  const session = await h2cSession(url);
  const stream = session.request({ ":method": "POST", ":path": "/" });
  stream.on("error", () => undefined);
  stream.end();
  await expect.poll(() => signals.length).toBe(2);
  stream.close(8);
  await expect.poll(() => signals[1]!.aborted).toBe(true);
  session.close();

  const patient = rawSocket({ port });
  patient.send(post(["Content-Length: 0"]));
  await expect.poll(() => signals.length).toBe(3);
  release();
  await patient.until(answered(1));
  patient.socket.destroy();
  await expect.poll(() => requests.running()).toBe(0);
  expect(signals[2]!.aborted).toBe(false);
});

test("a signal that is created after the caller has disconnected is aborted", async () => {
  let signal: AbortSignal | undefined;
  let ask = () => {};
  const handler: HttpHandler = async (request) => {
    await new Promise<void>((resolve) => {
      ask = resolve;
    });
    signal = request.signal;
    return jsonAnswer(200, "done");
  };
  const { port, requests } = await served(handler);
  const client = rawSocket({ port });
  const idle = ask;
  client.send(post(["Content-Length: 0"]));
  await expect.poll(() => ask !== idle).toBe(true);
  client.socket.resetAndDestroy();
  await expect.poll(() => requests.running()).toBe(0);
  ask();
  await expect.poll(() => signal?.reason?.reason).toBe("CANCELLED");
});

test("the signal of a request is one, and keeps the first reason", async () => {
  const signals: AbortSignal[] = [];
  const begun = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  const handler: HttpHandler = async (request) => {
    begun.resolve();
    const { signal } = request;
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    signals.push(signal, request.signal);
    left.resolve();
    return jsonAnswer(200, "done");
  };
  const { port, requests } = await served(handler);
  const client = rawSocket({ port });
  client.send(post(["Content-Length: 0"]));
  await begun.promise;
  client.socket.resetAndDestroy();
  await left.promise;
  await expect.poll(() => requests.running()).toBe(0);
  requests.abortAll(fail("UNAVAILABLE"));
  expect(signals[1]).toBe(signals[0]);
  expect(signals[0]!.reason).toMatchObject({ reason: "CANCELLED" });
});

test("a request that was answered is no longer watched", async () => {
  const tracker = createRequestTracker();
  const watched = new Map<number, Abortable>();
  const requests: RequestTracker = {
    ...tracker,
    watch: (request) => {
      watched.set(7, request);
      return 7;
    },
    unwatch: (place) => void watched.delete(place),
  };
  const handler: HttpHandler = async (request) => {
    await request.readBody(100);
    request.signal;
    return jsonAnswer(200, watched.size);
  };
  const { port } = await served(handler, { requests });
  const client = rawSocket({ port });
  client.send(post(["Content-Length: 0"]));
  expect(answersIn(await client.until(answered(1)))[0]!.body).toBe("1");
  expect(watched.size).toBe(0);
});

test("a caller that disconnects aborts its pipelined requests too", async () => {
  const signals: AbortSignal[] = [];
  const held: HttpHandler = (request) => {
    signals.push(request.signal);
    return new Promise((resolve) =>
      request.signal.addEventListener("abort", () => resolve(jsonAnswer(200, "done"))),
    );
  };
  const { port, requests } = await served(held);
  const client = rawSocket({ port });
  client.send(post(["Content-Length: 0"]) + post(["Content-Length: 0"]));
  await expect.poll(() => signals.length).toBe(2);
  client.socket.resetAndDestroy();
  await expect.poll(() => signals.map((signal) => signal.aborted)).toEqual([true, true]);
  await expect.poll(() => requests.running()).toBe(0);
});

test("a handler that throws, rejects or returns an answer that can't be sent becomes a whole 500, and the log has the cause", async () => {
  const cause = new Error("private words");
  const entries: HttpHandler[] = [
    () => {
      throw cause;
    },
    () => Promise.reject(cause),
    () => ({ status: 200, headers: ["X-Bad", "a\r\nb"], body: "" }),
  ];
  for (const handler of entries) {
    const { port, refusals } = await served(handler);
    const client = rawSocket({ port });
    client.send(post(["Content-Length: 0", "X-Request-Id: mine"]));
    const [answer] = answersIn(await client.until(answered(1)));
    expect(answer!.status).toBe(500);
    expect(answer!.body).not.toContain("private");
    expect(JSON.parse(answer!.body).error).toMatchObject({ code: "internal", requestId: "mine" });
    expect(refusals).toMatchObject([{ reason: "INTERNAL", requestId: "mine" }]);
    expect(refusals[0]?.cause).toBeInstanceOf(Error);
  }
});

test("a handler's own array of headers is never changed", async () => {
  const headers = Object.freeze(["X-A", "1"]) as string[];
  const { port } = await served(() => ({ status: 200, headers, body: "ü" }));
  const client = rawSocket({ port });
  client.send(post(["Content-Length: 0"]) + post(["Content-Length: 0"]));
  const answers = answersIn(await client.until(answered(2)));
  expect(answers.map((answer) => answer.headers.get("content-length"))).toEqual(["2", "2"]);
});

test("204 has no length and no body, and the answer to HEAD has the length without the body", async () => {
  const { port, url } = await served((request) =>
    request.target === "/none" ? { status: 204, headers: [], body: "" } : jsonAnswer(200, "text"),
  );
  const client = rawSocket({ port });
  client.send("GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
  expect(await client.until((heard) => heard.endsWith("\r\n\r\n"))).not.toMatch(
    /content-length|transfer-encoding/i,
  );
  const head = rawSocket({ port });
  head.send("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const heard = await head.closed();
  expect(heard).toContain("Content-Length: 6\r\n");
  expect(heard.endsWith("\r\n\r\n")).toBe(true);
  const session = await h2cSession(url);
  const over2 = await h2cRequest(session, { ":method": "HEAD", ":path": "/" });
  expect([over2.status, over2.headers["content-length"], over2.body]).toEqual([200, "6", ""]);
  session.close();
});
