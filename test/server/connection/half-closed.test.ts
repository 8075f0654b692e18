import { spawn } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { expect, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { describeWith, programsMissing } from "../../harness/needs.ts";
import { openConnections } from "../../harness/open-sockets.ts";
import { answersIn, rawSocket } from "../../harness/raw-socket.ts";
import { jsonAnswer, serveForTest as served } from "../../harness/served-handler.ts";

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";

/** An app that answers when the test says so, or when its caller is gone. */
function slowApp() {
  const signals: AbortSignal[] = [];
  const finishers: (() => void)[] = [];
  const handler: HttpHandler = async (request) => {
    await request.readBody(100);
    const number = signals.push(request.signal);
    await new Promise<void>((resolve) => {
      finishers.push(resolve);
      request.signal.addEventListener("abort", () => resolve());
    });
    return jsonAnswer(200, `answer ${number}`);
  };
  return { handler, signals, finishers };
}

test.each([get, post, get.replace("1.1", "1.0")])(
  "a caller that closes its end after its request is gone, and its request is cancelled: %j",
  async (bytes) => {
    const { handler, signals } = slowApp();
    const { port, requests } = await served(handler);
    const client = rawSocket({ port, allowHalfOpen: true });
    client.send(bytes);
    await expect.poll(() => signals.length).toBe(1);
    client.socket.end();
    await expect.poll(() => signals[0]?.reason?.reason).toBe("CANCELLED");
    expect(await client.closed()).toBe("");
    await expect.poll(() => requests.running()).toBe(0);
    await expect.poll(() => openConnections(port)).toBe(0);
  },
);

test("a caller that closes its end in the middle of a request is refused", async () => {
  const { port, requests } = await served(slowApp().handler);
  const client = rawSocket({ port, allowHalfOpen: true });
  client.socket.end(post.slice(0, -1));
  expect(answersIn(await client.closed())).toMatchObject([{ status: 400 }]);
  await expect.poll(() => requests.running()).toBe(0);
});

test("a caller that closes its end during a streamed answer is gone", async () => {
  const handler: HttpHandler = () => ({
    status: 200,
    headers: [],
    body: (async function* () {
      yield Buffer.from("begun");
      await new Promise(() => undefined);
    })(),
  });
  const { port, requests } = await served(handler);
  const client = rawSocket({ port, allowHalfOpen: true });
  client.send(get);
  await client.until((heard) => heard.includes("begun"));
  client.socket.end();
  await client.closed();
  await expect.poll(() => requests.running()).toBe(0);
});

const vanishing: Readonly<Record<string, (port: number) => Promise<() => void>>> = {
  "Node's client": async (port) => {
    const request = httpRequest({ port, host: "127.0.0.1" }).on("error", () => undefined);
    request.end();
    return () => request.destroy();
  },
  fetch: async (port) => {
    const controller = new AbortController();
    fetch(`http://127.0.0.1:${port}/`, { signal: controller.signal }).catch(() => undefined);
    return () => controller.abort();
  },
};

async function expectCancelled(start: (port: number) => Promise<() => void>): Promise<void> {
  const { handler, signals, finishers } = slowApp();
  const { port, requests } = await served(handler);
  const vanish = await start(port);
  await expect.poll(() => finishers.length).toBe(1);
  vanish();
  await expect.poll(() => signals[0]!.reason?.reason).toBe("CANCELLED");
  await expect.poll(() => requests.running()).toBe(0);
  await expect.poll(() => openConnections(port)).toBe(0);
}

test.each(Object.entries(vanishing))("a caller that is gone cancels its request: %s", async (_, start) => {
  await expectCancelled(start);
});

describeWith(programsMissing("curl"))("curl", () => {
  test("that is killed cancels its request", async () => {
    await expectCancelled(async (port) => {
      const curl = spawn("curl", ["-s", `http://127.0.0.1:${port}/`]);
      await once(curl, "spawn");
      return () => curl.kill("SIGKILL");
    });
  });
});
