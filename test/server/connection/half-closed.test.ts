import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { openConnections } from "../../harness/open-sockets.ts";
import { answersIn, rawSocket } from "../../harness/raw-socket.ts";
import { jsonAnswer, serveForTest as served } from "../../harness/served-handler.ts";
import { soon } from "../../harness/soon.ts";

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";

/** An app that answers when the test says so, or when its caller is gone. */
function slowApp() {
  const signals: AbortSignal[] = [];
  const finishers: (() => void)[] = [];
  const handler: HttpHandler = async (request) => {
    await request.readBody(100);
    const number = signals.push(request.signal());
    await new Promise<void>((resolve) => {
      finishers.push(resolve);
      request.signal().addEventListener("abort", () => resolve());
    });
    return jsonAnswer(200, `answer ${number}`);
  };
  return { handler, signals, finishers };
}

/** Resolves when so many checks of a half-closed caller must be over. */
function afterChecks(checkMs: number, checks: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, checkMs * 2 ** checks));
}

test.each([get, post, get.replace("1.1", "1.0")])(
  "a caller that closes its end after its request gets the whole answer of a slow app: %j",
  async (bytes) => {
    const { handler, signals, finishers } = slowApp();
    const { port, requests } = await served(handler, { limits: { halfClosedCheckMs: 2 } });
    const client = rawSocket({ port, allowHalfOpen: true });
    client.socket.end(bytes);
    await soon(() => finishers.length).toBe(1);
    // More checks than the begin of an answer has letters.
    await afterChecks(2, 9);
    expect(signals[0]!.aborted).toBe(false);
    expect("HTTP/1.1 ".startsWith(client.heard())).toBe(true);
    finishers[0]!();
    const heard = await client.closed();
    expect(heard).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(answersIn(heard)).toMatchObject([{ status: 200, body: '"answer 1"' }]);
    expect(answersIn(heard)[0]!.headers.get("content-length")).toBe("10");
    await soon(() => requests.running()).toBe(0);
    await soon(() => openConnections(port)).toBe(0);
  },
);

test("a caller that closes its end after several requests gets all answers, in order", async () => {
  const { handler, finishers } = slowApp();
  const { port } = await served(handler, { limits: { halfClosedCheckMs: 2 } });
  const client = rawSocket({ port, allowHalfOpen: true });
  client.socket.end(get.repeat(3));
  await soon(() => finishers.length).toBe(3);
  for (const [number, finish] of finishers.entries()) {
    await afterChecks(2, 5);
    finish();
    await client.until((heard) => answersIn(heard).length > number);
  }
  const bodies = answersIn(await client.closed()).map(({ body }) => body);
  expect(bodies).toEqual(['"answer 1"', '"answer 2"', '"answer 3"']);
});

test("a caller that closes its end in the middle of a request is refused", async () => {
  const { port, requests } = await served(slowApp().handler);
  const client = rawSocket({ port, allowHalfOpen: true });
  client.socket.end(post.slice(0, -1));
  expect(answersIn(await client.closed())).toMatchObject([{ status: 400 }]);
  await soon(() => requests.running()).toBe(0);
});

test("a caller that closes its end and later resets is cancelled", async () => {
  const { handler, signals, finishers } = slowApp();
  const { port } = await served(handler);
  const client = rawSocket({ port, allowHalfOpen: true });
  client.socket.end(get);
  await soon(() => finishers.length).toBe(1);
  await client.until((heard) => heard.length >= 2);
  expect(signals[0]!.aborted).toBe(false);
  client.socket.destroy();
  await soon(() => signals[0]!.aborted).toBe(true);
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
  await soon(() => requests.running()).toBe(0);
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
  "a killed curl": async (port) => {
    const curl = spawn("curl", ["-s", `http://127.0.0.1:${port}/`]);
    await once(curl, "spawn");
    return () => curl.kill("SIGKILL");
  },
};

test.each(Object.entries(vanishing))("a caller that is gone cancels its request: %s", async (_, start) => {
  const { handler, signals, finishers } = slowApp();
  const { port, requests } = await served(handler);
  const vanish = await start(port);
  await soon(() => finishers.length).toBe(1);
  vanish();
  await soon(() => signals[0]!.reason?.reason).toBe("CANCELLED");
  await soon(() => requests.running()).toBe(0);
  await soon(() => openConnections(port)).toBe(0);
});

/** Sends a request, closes its end, and prints what http.client makes of the answer. */
const python = `
import http.client, socket, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
connection.request("POST", "/", body=b"hello")
connection.sock.shutdown(socket.SHUT_WR)
answer = connection.getresponse()
print(answer.status, answer.read().decode())
`;

test("Python's client gets the answer of a slow app after it has closed its end", async () => {
  const { handler, finishers } = slowApp();
  const { port } = await served(handler, { limits: { halfClosedCheckMs: 2 } });
  const printed = promisify(execFile)("/usr/bin/python3", ["-c", python, String(port)]);
  await soon(() => finishers.length).toBe(1);
  await afterChecks(2, 6);
  finishers[0]!();
  expect((await printed).stdout).toBe('200 "answer 1"\n');
});
