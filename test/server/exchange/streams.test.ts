import { connect, constants } from "node:http2";
import { connect as connectTcp } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import type { HttpHandler, HttpRequest, HttpResponse } from "#src/http/handler.ts";
import { fail } from "#src/refusal/refusal.ts";
import { cancelFrame, dataFrame, h2Opening, headersFrame } from "../../harness/h2-frames.ts";
import { h2cAnswer, h2cRequest, h2cSession } from "../../harness/h2c-client.ts";
import { answersIn, rawSocket } from "../../harness/raw-socket.ts";
import { serveForTest as served } from "../../harness/served-handler.ts";

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

function streaming(body: AsyncIterable<Uint8Array>, rest: Partial<HttpResponse> = {}): HttpResponse {
  return { status: 200, headers: ["Content-Type", "text/plain"], ...rest, body };
}

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

test("a stream is sent as it comes, and its trailers are computed at its end", async () => {
  const next = Promise.withResolvers<void>();
  let ended = false;
  async function* body(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("one ");
    await next.promise;
    yield Buffer.from("two");
    ended = true;
  }
  const { url } = await served(() => streaming(body(), { trailers: () => ["x-ended", String(ended)] }));
  const session = await h2cSession(url);
  const stream = session.request({ ":path": "/" });
  const trailers = new Promise((resolve) => stream.once("trailers", resolve));
  const answer = h2cAnswer(stream);
  await new Promise((resolve) => stream.once("data", resolve));
  next.resolve();
  expect(await answer).toMatchObject({ status: 200, body: "one two" });
  expect(await trailers).toMatchObject({ "x-ended": "true" });
  session.close();
});

test("over HTTP/1.1 a stream is chunked, and its connection stays usable", async () => {
  const { port, requests } = await served(() => streaming(chunks("one ", "two")));
  const client = rawSocket({ port });
  client.send(get + get);
  const heard = await client.until((text) => text.split("\r\n0\r\n\r\n").length === 3);
  expect(heard.match(/Transfer-Encoding: chunked/gi)).toHaveLength(2);
  expect(heard).toContain("4\r\none \r\n3\r\ntwo\r\n");
  await expect.poll(() => requests.running()).toBe(0);
});

test.each(["1.1", "2"])(
  "over HTTP/%s an answer whose body fails is cut off, and the failure is logged once",
  async (http) => {
    const cause = new Error("private words");
    const heardOne = Promise.withResolvers<void>();
    async function* body(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("one ");
      await heardOne.promise;
      throw cause;
    }
    const { port, url, refusals, requests } = await served(() => streaming(body()));
    if (http === "2") {
      const session = await h2cSession(url);
      const stream = session.request({ ":path": "/" });
      stream.once("data", () => heardOne.resolve());
      await expect(h2cAnswer(stream)).rejects.toThrow("NGHTTP2_INTERNAL_ERROR");
      session.close();
    } else {
      const client = rawSocket({ port });
      client.send(get);
      await client.until((heard) => heard.includes("one "));
      heardOne.resolve();
      const heard = await client.closed();
      expect(heard).not.toMatch(/0\r\n\r\n$/);
      expect(heard).not.toContain("private");
    }
    expect(refusals).toMatchObject([{ reason: "INTERNAL", cause }]);
    await expect.poll(() => requests.running()).toBe(0);
  },
);

test.each([
  ["1.1", undefined],
  ["2", constants.NGHTTP2_CANCEL],
  ["2", constants.NGHTTP2_NO_ERROR],
])(
  "over HTTP/%s a body ends at once when its caller disconnects (code %s), and its signal is aborted",
  async (http, code) => {
    const returned = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<HttpRequest>();
    const { port, url, requests, refusals } = await served((request) => {
      request.signal;
      const waiting: AsyncIterableIterator<Uint8Array> = {
        [Symbol.asyncIterator]: () => waiting,
        next: () => {
          asked.resolve(request);
          return new Promise(() => {});
        },
        return: async () => {
          returned.resolve();
          return { done: true, value: undefined };
        },
      };
      return streaming(waiting);
    });
    const session = http === "2" ? await h2cSession(url) : undefined;
    const client = session ? undefined : rawSocket({ port });
    const stream = session?.request({ ":path": "/" });
    client?.send(get);
    const request = await asked.promise;
    expect(request.signal.aborted).toBe(false);
    expect(requests.running()).toBe(1);
    stream?.close(code);
    client?.socket.resetAndDestroy();
    await returned.promise;
    expect(request.signal.reason).toMatchObject({ reason: "CANCELLED" });
    await expect.poll(() => requests.running()).toBe(0);
    expect(refusals).toEqual([]);
  },
);

test("a drain waits for a stream's last byte, and aborts the stream's signal at its end", async () => {
  const { port, requests } = await served((request) => {
    const signal = request.signal;
    async function* body(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("one ");
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      yield Buffer.from(`ended by ${signal.reason.reason}`);
    }
    return streaming(body());
  });
  const client = rawSocket({ port });
  client.send(get);
  await client.until((heard) => heard.includes("one "));
  let isIdle = false;
  const idle = requests.idle().then(() => {
    isIdle = true;
  });
  await nextTurn();
  expect(isIdle).toBe(false);
  requests.abortAll(fail("UNAVAILABLE"));
  await client.until((heard) => heard.includes("ended by UNAVAILABLE\r\n0\r\n\r\n"));
  await idle;
});

const echo: HttpHandler = (request) => streaming(request.bodyChunks());

test("a request's body is read while its answer is written", async () => {
  const { url } = await served(echo);
  const session = await h2cSession(url);
  const stream = session.request({ ":method": "POST", ":path": "/" });
  for (const text of ["one ", "two "]) {
    stream.write(text);
    const [back] = await new Promise<Buffer[]>((resolve) => stream.once("data", (chunk) => resolve([chunk])));
    expect(String(back)).toBe(text);
  }
  const last = new Promise((resolve) => stream.once("data", (chunk) => resolve(String(chunk))));
  stream.end("three");
  expect(await last).toBe("three");
  session.close();
});

test("a body that arrives in parts is read in order, and no part is lost", async () => {
  const { url, port } = await served(echo);
  const large = Buffer.alloc(3_000_000, "0123456789");
  const over1 = await fetch(`http://127.0.0.1:${port}/`, { method: "POST", body: large });
  expect(Buffer.from(await over1.arrayBuffer()).equals(large)).toBe(true);
  const session = await h2cSession(url);
  const over2 = await h2cRequest(session, { ":method": "POST", ":path": "/" }, large);
  expect(over2.body).toBe(String(large));
  expect((await h2cRequest(session, { ":method": "POST", ":path": "/" })).body).toBe("");
  session.close();
});

/** Reads the first chunk and answers. */
const hasty: HttpHandler = async (request) => {
  for await (const chunk of request.bodyChunks()) return streaming(chunks(`${chunk.length > 0}`));
  return streaming(chunks("empty"));
};

test("the rest of a body whose handler stops reading is dropped, and its connection stays usable", async () => {
  const { port, requests } = await served(hasty);
  const client = rawSocket({ port });
  const length = 1024 * 1024;
  const head = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`;
  for (let sent = 1; sent <= 2; sent += 1) {
    client.send(head);
    client.send(Buffer.alloc(length, "x"));
    await client.until((heard) => heard.split("true\r\n0\r\n\r\n").length === sent + 1);
  }
  await expect.poll(() => requests.running()).toBe(0);
});

test("a caller that sends Connection: close gets the answer and no reset, if the handler stops reading its upload", async () => {
  const { port } = await served(hasty);
  const client = rawSocket({ port });
  const length = 1024 * 1024;
  client.send(`POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`);
  client.send(Buffer.alloc(length, "x"));
  const [answer] = answersIn(await client.closed());
  expect(answer?.status).toBe(200);
});

test("a body whose rest will not come ends with a refusal that says why", async () => {
  const thrown: unknown[] = [];
  let begun = 0;
  const { port, requests } = await served(async (request) => {
    begun += 1;
    try {
      for await (const _ of request.bodyChunks());
    } catch (error) {
      thrown.push(error);
    }
    return { status: 200, headers: [], body: "" };
  });
  const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx";
  const leaving = rawSocket({ port });
  leaving.send(head);
  // A request that is counted has perhaps not begun, and one whose caller has left never does.
  await expect.poll(() => begun).toBe(1);
  leaving.socket.resetAndDestroy();
  await expect.poll(() => thrown).toMatchObject([{ reason: "CANCELLED" }]);
  const drained = rawSocket({ port });
  drained.send(head);
  await expect.poll(() => requests.running()).toBe(1);
  requests.abortAll(fail("UNAVAILABLE"));
  await expect.poll(() => thrown).toMatchObject([{ reason: "CANCELLED" }, { reason: "UNAVAILABLE" }]);
});

test("the answer to HEAD has no body, and the handler's body is not read", async () => {
  let isRead = false;
  async function* body(): AsyncGenerator<Uint8Array> {
    isRead = true;
    yield Buffer.from("x");
  }
  const { url } = await served(() => streaming(body()));
  const answer = await fetch(url, { method: "HEAD" });
  expect([answer.status, isRead]).toEqual([200, false]);
});

test.each([
  ["HEAD asks for the head alone", "HEAD", ["Content-Type", "text/plain"], 200],
  ["Node can't send the head", "GET", ["X-Bad", "a\r\nb"], 500],
])("a body that nobody reads is returned, so that its work ends: %s", async (_, method, headers, status) => {
  let returned = 0;
  const never: AsyncIterableIterator<Uint8Array> = {
    [Symbol.asyncIterator]: () => never,
    next: () => new Promise(() => {}),
    return: async () => {
      returned += 1;
      return { done: true, value: undefined };
    },
  };
  const { port, requests } = await served(() => ({ status: 200, headers, body: never }));
  const client = rawSocket({ port });
  client.send(get.replace("GET", method));
  await client.until((heard) => heard.includes("\r\n\r\n"));
  expect(client.heard()).toContain(`HTTP/1.1 ${status} `);
  await expect.poll(() => returned).toBe(1);
  await expect.poll(() => requests.running()).toBe(0);
});

test("over HTTP/2 a caller that closes its connection without a reset is noticed at once", async () => {
  const aborted = Promise.withResolvers<unknown>();
  const begun = Promise.withResolvers<void>();
  const { port, requests } = await served((request) => {
    begun.resolve();
    const signal = request.signal;
    signal.addEventListener("abort", () => aborted.resolve(signal.reason));
    return new Promise(() => {});
  });
  const socket = connectTcp(port, "127.0.0.1");
  const session = connect(`http://127.0.0.1:${port}`, { createConnection: () => socket });
  session.on("error", () => undefined);
  const stream = session.request({ ":path": "/" });
  stream.on("error", () => undefined);
  await begun.promise;
  socket.end();
  expect(await aborted.promise).toMatchObject({ reason: "CANCELLED" });
  await expect.poll(() => requests.running()).toBe(0);
});

test.each([
  ["whole", async (request: HttpRequest) => (await request.readBody(100)).kind, "gone"],
  [
    "in chunks",
    async (request: HttpRequest) => {
      try {
        for await (const _ of request.bodyChunks());
        return "whole";
      } catch (thrown) {
        return (thrown as { reason?: string }).reason;
      }
    },
    "CANCELLED",
  ],
])(
  "an upload that its caller resets with NO_ERROR is not taken for a whole one, read %s",
  async (_, read, outcome) => {
    const seen = Promise.withResolvers<unknown>();
    const begun = Promise.withResolvers<void>();
    const { port } = await served(async (request) => {
      begun.resolve();
      seen.resolve(await read(request));
      return streaming(chunks("x"));
    });
    const client = rawSocket({ port });
    const head = [
      [":method", "POST"],
      [":path", "/"],
      [":scheme", "http"],
      [":authority", "a"],
    ] as const;
    client.send(Buffer.concat([h2Opening, headersFrame(1, head, { hasBody: true }), dataFrame(1, "one")]));
    await begun.promise;
    client.send(cancelFrame(1, constants.NGHTTP2_NO_ERROR));
    expect(await seen.promise).toBe(outcome);
  },
);
