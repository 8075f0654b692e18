import { once } from "node:events";
import { type ClientHttp2Stream, connect } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { transportLimits } from "#src/server/transport.ts";
import { UnreadAnswers } from "#src/server/unread-answers.ts";
import { rawSocket } from "../../harness/raw-socket.ts";
import { serveForTest as served } from "../../harness/served-handler.ts";

const checkIntervalMs = 25;
const shortStall = { checkIntervalMs, stalledWriteMsMax: 300, writeBytesPerSecondMin: 2 ** 40 };

const bodyBytes = 64 * 1024 * 1024;

/** A body, in chunks of one size, that is far larger than all buffers of the system. */
function large(size: number) {
  const seen = { produced: 0, returned: 0 };
  const handler: HttpHandler = (request) => {
    void request.signal;
    async function* body(): AsyncGenerator<Uint8Array> {
      try {
        while (seen.produced * size < bodyBytes) {
          seen.produced += 1;
          yield Buffer.alloc(size, "x");
        }
      } finally {
        seen.returned += 1;
      }
    }
    return { status: 200, headers: ["Content-Type", "text/plain"], body: body() };
  };
  return { seen, handler };
}

/** Opens a stream and reads nothing of it. */
async function openUnread(http: string, { port, url }: { port: number; url: string }) {
  if (http === "1.1") {
    const client = rawSocket({ port });
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.socket.pause();
    return;
  }
  const session = connect(url, { settings: { initialWindowSize: 0 } });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  await once(session, "remoteSettings");
  session.request({ ":path": "/" }).on("error", () => undefined);
}

describe.each(["1.1", "2"])("over HTTP/%s", (http) => {
  test.each([64 * 1024, 1024])(
    "a reader that stops holds one chunk of %i bytes, and no other is asked for",
    async (size) => {
      const { seen, handler } = large(size);
      const unread = new UnreadAnswers(transportLimits);
      const server = await served(handler, { unread });
      await openUnread(http, server);
      await expect.poll(() => unread.bytes).toBeGreaterThan(0);
      // The kernel's buffers fill first.
      let before = -1;
      await expect
        .poll(() => {
          const isStill = before === seen.produced;
          before = seen.produced;
          return isStill && unread.bytes > 0;
        })
        .toBe(true);
      expect(unread.bytes - transportLimits.unreadAnswerBytes).toBeLessThanOrEqual(size);
    },
  );

  test("a reader that takes nothing is closed, and its body ends", async () => {
    const { seen, handler } = large(16 * 1024);
    const server = await served(handler, { limits: shortStall });
    await openUnread(http, server);
    await expect.poll(() => seen.returned).toBe(1);
    await expect.poll(() => server.requests.running()).toBe(0);
    expect(server.refusals).toEqual([]);
  });
});

test("over HTTP/1.1 a reader that takes nothing is closed, although it goes on sending", async () => {
  const { seen, handler } = large(16 * 1024);
  const { port, requests } = await served(handler, { limits: shortStall });
  const client = rawSocket({ port });
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  client.socket.pause();
  // A server passes over empty lines before a request (RFC 9112, section 2.2).
  const sending = setInterval(() => client.send("\r\n"), checkIntervalMs);
  onTestFinished(() => clearInterval(sending));
  await expect.poll(() => seen.returned).toBe(1);
  await expect.poll(() => requests.running()).toBe(0);
});

test("over HTTP/2 a slow reader is not closed while it reads, although something always waits for it", async () => {
  const { seen, handler } = large(1024);
  const { url } = await served(handler, { limits: shortStall });
  const session = connect(url, { settings: { initialWindowSize: 512 } });
  onTestFinished(() => session.destroy());
  await once(session, "remoteSettings");
  const stream = session.request({ ":path": "/" });
  await readSlowly(stream, 40);
  expect(stream.closed).toBe(false);
  expect(seen.returned).toBe(0);
});

/** Takes so many pieces, each only a while after the one before. */
async function readSlowly(stream: ClientHttp2Stream, pieces: number): Promise<void> {
  stream.pause();
  for (let taken = 0; taken < pieces && !stream.closed; ) {
    if (stream.read() === null) await Promise.race([once(stream, "readable"), once(stream, "close")]);
    else {
      taken += 1;
      await sleep(checkIntervalMs);
    }
  }
}
