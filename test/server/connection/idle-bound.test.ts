import { once } from "node:events";
import { expect, test } from "vitest";
import { h2cSession } from "../../harness/h2c-client.ts";
import { type RawSocket, rawSocket } from "../../harness/raw-socket.ts";
import { echoHandler, jsonAnswer, serveForTest } from "../../harness/served-handler.ts";

/** Four connections over HTTP/1.1, or two over HTTP/2. */
const limits = { idleBytesMax: 4, idleBytes: { http1: 1, http2: 2 } };
const connectionsMax = 8;

function callerOf(port: number): RawSocket & { ask(): Promise<unknown> } {
  const caller = rawSocket({ port });
  let asked = 0;
  const ask = () => {
    asked += 1;
    caller.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    return caller.until((heard) => heard.split("HTTP/1.1 200").length > asked);
  };
  return { ...caller, ask };
}

test("past the bytes of idle connections, those without a request for longest are closed, over HTTP/1.1 and HTTP/2", async () => {
  const { port, url, events } = await serveForTest(echoHandler, { limits, connectionsMax });
  const callers = Array.from({ length: 4 }, () => callerOf(port));
  for (const caller of callers) await caller.ask();
  const [first, second, third, fourth] = callers;
  await first?.ask();
  const fifth = callerOf(port);
  await fifth.ask();
  await second?.closed();
  const session = await h2cSession(url);
  await Promise.all([third?.closed(), fourth?.closed()]);
  await first?.ask();
  const ended = once(session, "close");
  const another = await h2cSession(url);
  await Promise.all([fifth.closed(), ended]);
  await first?.ask();
  expect(another.closed).toBe(false);
  expect(events).toEqual(Array(5).fill({ kind: "idle_connection_closed", address: "127.0.0.1" }));
  another.destroy();
});

test("a connection with a running request is not closed, however many connections begin", async () => {
  const answers: (() => void)[] = [];
  const { port } = await serveForTest(
    (request) =>
      request.target === "/wait"
        ? new Promise((resolve) => answers.push(() => resolve(jsonAnswer(200, "waited"))))
        : jsonAnswer(200, "at once"),
    { limits, connectionsMax },
  );
  const waiting = Array.from({ length: 5 }, () => rawSocket({ port }));
  for (const { send } of waiting) send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  await expect.poll(() => answers.length).toBe(5);
  for (let times = 0; times < 20; times += 1) {
    const idle = callerOf(port);
    await idle.ask();
    idle.socket.destroy();
  }
  for (const answer of answers) answer();
  for (const { until } of waiting) await until((heard) => heard.includes("waited"));
});
