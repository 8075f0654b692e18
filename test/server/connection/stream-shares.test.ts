import type { ClientHttp2Session } from "node:http2";
import { expect, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { h2Opening, headersFrame } from "../../harness/h2-frames.ts";
import { h2cRequest, h2cSession } from "../../harness/h2c-client.ts";
import { rawSocket } from "../../harness/raw-socket.ts";
import { serveForTest } from "../../harness/served-handler.ts";

const answer = { status: 200, headers: [], body: "" };
/** As admission does, once the secret of a key was right. */
const admitKeys: HttpHandler = (request) => {
  if (request.authorizations.length > 0) request.teamId = "a-team";
  return answer;
};
const streamsOf = (session: ClientHttp2Session) => session.remoteSettings.maxConcurrentStreams;

/** As many requests as a session may send at once, with one opening. */
function burst(path: string, streams: number): Buffer {
  const fields = [":method GET", ":scheme http", ":authority a", `:path ${path}`];
  const headers = fields.map((field) => field.split(" ") as [string, string]);
  const frames = Array.from({ length: streams }, (_, at) => headersFrame(2 * at + 1, headers));
  return Buffer.concat([h2Opening, ...frames]);
}

test("the more sessions without a right key, the fewer streams the next one gets, and all with its first right key", async () => {
  const { url, listener } = await serveForTest(admitKeys, { unprovenStreamsMax: 256 });
  const sessions: ClientHttp2Session[] = [];
  for (let at = 0; at < 4; at += 1) {
    const session = await h2cSession(url);
    // The share follows the settings of every session.
    await h2cRequest(session, { ":path": "/" });
    sessions.push(session);
  }
  expect(sessions.map(streamsOf)).toEqual([128, 128, 85, 64]);

  const [first, , , last] = sessions as [ClientHttp2Session, unknown, unknown, ClientHttp2Session];
  await h2cRequest(last, { ":path": "/", authorization: "Bearer a" });
  await expect.poll(() => streamsOf(last)).toBe(128);
  first.destroy();
  await expect.poll(() => listener.connections()).toBe(3);
  const next = await h2cSession(url);
  await h2cRequest(next, { ":path": "/" });
  expect(streamsOf(next)).toBe(85);
  for (const session of [...sessions, next]) session.destroy();
});

test("a session gets one stream, however many there are", async () => {
  const { url } = await serveForTest(admitKeys, { unprovenStreamsMax: 1 });
  const sessions = [await h2cSession(url), await h2cSession(url), await h2cSession(url)];
  for (const session of sessions) expect((await h2cRequest(session, { ":path": "/" })).status).toBe(200);
  expect(sessions.map(streamsOf)).toEqual([1, 1, 1]);
  for (const session of sessions) session.destroy();
});

test("200 sessions that send 128 requests each in one moment get 7,000 into handlers at most", async () => {
  let handled = 0;
  const { port } = await serveForTest(
    () => {
      handled += 1;
      return answer;
    },
    { unprovenStreamsMax: 1_024 },
  );
  const sockets = Array.from({ length: 200 }, () => rawSocket({ port }));
  for (const { send } of sockets) send(burst("/", 128));
  // Node closes a session with more than 100 refused streams.
  await sockets.at(-1)?.closed();
  expect(handled).toBeGreaterThan(1_024);
  expect(handled).toBeLessThan(7_000);
  for (const { socket } of sockets) socket.destroy();
});
