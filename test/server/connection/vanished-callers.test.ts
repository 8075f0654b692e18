import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { createCallerCheck, createHttp2Acceptor } from "#src/server/connection/http2-server.ts";
import { transportLimits as limits } from "#src/server/transport.ts";
import { UnreadAnswers } from "#src/server/unread-answers.ts";
import { frame, framesIn, frameTypes, h2Opening, headersFrame } from "../../harness/h2-frames.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { keepAliveMs } from "../../harness/open-sockets.ts";
import { rawSocket } from "../../harness/raw-socket.ts";
import { jsonAnswer, serveForTest } from "../../harness/served-handler.ts";
import { soon } from "../../harness/soon.ts";

const { silentCallerMs, pingAnswerMsMax } = limits;
const acknowledged = 1;
const settings = frame({ type: frameTypes.settings, flags: acknowledged, stream: 0 });

const pingsIn = (heard: string) =>
  framesIn(heard).filter(({ type, flags }) => type === frameTypes.ping && flags !== acknowledged);
const hasPings = (count: number) => (heard: string) => pingsIn(heard).length === count;

/** A session over HTTP/2 whose caller says what the test lets it say, and the check of it. */
async function openSession() {
  const clock = createManualClock();
  const unread = new UnreadAnswers(limits);
  const acceptor = createHttp2Acceptor({
    ...{ limits, unread, running: [], unprovenStreamsMax: undefined, report: () => {} },
  });
  const server = createServer({ pauseOnConnect: true }, (socket) => acceptor.accept(socket.resume()));
  onTestFinished(() => void server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const caller = rawSocket({ port: typeof address === "object" ? (address?.port ?? 0) : 0 });
  onTestFinished(() => void caller.socket.destroy());
  caller.send(Buffer.concat([h2Opening, settings]));
  const [socket]: Socket[] = await once(server, "connection");
  await caller.until(
    (heard) => framesIn(heard).filter(({ type }) => type === frameTypes.settings).length === 2,
  );
  const [session] = acceptor.sessions;
  const { sessions } = acceptor;
  const check = createCallerCheck({ sessions, unread, limits, clock });
  const counted = unread.of(session!)!;
  check();
  return {
    caller,
    session: session!,
    counted,
    checkAfter(ms: number) {
      clock.advance(ms);
      check();
    },
    /** Sends the bytes, and resolves once they have arrived. */
    async say(bytes: Uint8Array) {
      const before = socket!.bytesRead;
      caller.send(bytes);
      await soon(() => socket!.bytesRead).toBe(before + bytes.length);
    },
  };
}

test("a caller that is silent while its request runs is asked once, and is gone if it says nothing then", async () => {
  const { caller, session, counted, checkAfter } = await openSession();
  counted.requests = 1;
  checkAfter(silentCallerMs - 1);
  expect(pingsIn(caller.heard())).toEqual([]);
  checkAfter(1);
  await caller.until(hasPings(1));
  checkAfter(pingAnswerMsMax - 1);
  expect(session.destroyed).toBe(false);
  checkAfter(1);
  expect(session.destroyed).toBe(true);
  expect(pingsIn(await caller.closed())).toHaveLength(1);
});

test("a caller that answers each PING may wait for ever", async () => {
  const { caller, session, counted, checkAfter, say } = await openSession();
  counted.requests = 1;
  for (let asked = 1; asked <= 5; asked += 1) {
    checkAfter(silentCallerMs);
    await caller.until(hasPings(asked));
    const { payload } = pingsIn(caller.heard())[asked - 1]!;
    await say(frame({ type: frameTypes.ping, flags: acknowledged, stream: 0 }, payload));
    checkAfter(pingAnswerMsMax);
  }
  expect(session.destroyed).toBe(false);
});

test("a slow caller whose answer to the PING waits behind other bytes is not gone", async () => {
  const { caller, session, counted, checkAfter, say } = await openSession();
  counted.requests = 1;
  checkAfter(silentCallerMs);
  await caller.until(hasPings(1));
  await say(frame({ type: frameTypes.windowUpdate, flags: 0, stream: 0 }, Buffer.of(0, 0, 0, 1)));
  checkAfter(pingAnswerMsMax);
  expect(session.destroyed).toBe(false);
});

test("a session without a running request is not asked: it closes when it is idle for too long", async () => {
  const { caller, session, checkAfter } = await openSession();
  for (let look = 0; look < 5; look += 1) checkAfter(silentCallerMs + pingAnswerMsMax);
  expect(session.destroyed).toBe(false);
  caller.socket.end();
  expect(pingsIn(await caller.closed())).toEqual([]);
});

/** Works on each request until its caller is gone. */
function endlessHandler() {
  let working = 0;
  const handler: HttpHandler = async (request) => {
    working += 1;
    await new Promise<void>((resolve) => request.signal.addEventListener("abort", () => resolve()));
    working -= 1;
    return jsonAnswer(200, "for nobody");
  };
  return { handler, working: () => working };
}

test("the request of a caller over HTTP/2 that vanished ends, and its place is free", async () => {
  const clock = createManualClock();
  const { handler, working } = endlessHandler();
  const { port, listener } = await serveForTest(handler, { clock, limits: { checkIntervalMs: 5 } });
  const caller = rawSocket({ port });
  const head = { ":method": "GET", ":path": "/", ":scheme": "http", ":authority": "a" };
  caller.send(Buffer.concat([h2Opening, settings, headersFrame(1, Object.entries(head))]));
  await soon(working).toBe(1);
  await soon(() => {
    clock.advance(silentCallerMs);
    return working();
  }).toBe(0);
  await caller.closed();
  await soon(listener.connections).toBe(0);
});

test("the system asks a silent caller after a minute, whatever it speaks", async () => {
  const { handler, working } = endlessHandler();
  const { port } = await serveForTest(handler);
  const [http1, http2] = [rawSocket({ port }), rawSocket({ port })];
  http1.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  http2.send(Buffer.concat([h2Opening, settings]));
  await soon(working).toBe(1);
  await soon(() => keepAliveMs(port, "server").length).toBe(2);
  for (const ms of keepAliveMs(port, "server")) expect(ms).toBeLessThanOrEqual(60_000);
  for (const { socket } of [http1, http2]) socket.destroy();
  await soon(working).toBe(0);
});
