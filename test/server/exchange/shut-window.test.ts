import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { transportLimits } from "#src/server/transport.ts";
import { h2cSession } from "../../harness/h2c-client.ts";
import { type Keyrun, startKeyrun } from "../../harness/keyrun.ts";

let keyrun: Keyrun;
const sessions: ClientHttp2Session[] = [];

beforeAll(async () => {
  // Streams are ended by a check that counts its own intervals.
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  keyrun = await startKeyrun();
});

afterAll(async () => {
  for (const session of sessions) session.destroy();
  await keyrun.close();
  vi.useRealTimers();
});

const listFiles = Buffer.from([0, 0, 0, 0, 2, 0x3a, 0]);

function rpc(session: ClientHttp2Session, path: string, type: string): ClientHttp2Stream {
  const headers = { "content-type": type, "connect-protocol-version": "1", te: "trailers" };
  const stream = session.request({ ":method": "POST", ":path": path, ...headers });
  return stream.on("error", () => undefined);
}

test("with the product's limits, a caller without a credential can't hold a stream open, with a closed window or an endless body", async () => {
  const shut = connect(keyrun.publicUrl, { settings: { initialWindowSize: 0 } });
  await once(shut, "remoteSettings");
  const internal = await h2cSession(keyrun.internalUrl);
  sessions.push(shut, internal);

  const run = "/keyrun.v1.RunService/RunApp";
  const refusedRpc = rpc(shut, run, "application/json").resume();
  refusedRpc.end("{}");
  const refusedRest = shut.request({ ":method": "POST", ":path": "/api/apps/echo/run" });
  refusedRest.on("error", () => undefined).resume();
  refusedRest.end("{}");
  const check = rpc(internal, "/grpc.health.v1.Health/Check", "application/grpc").resume();
  check.write(Buffer.from([0, 0]));
  const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  const talk = rpc(internal, reflection, "application/grpc");
  talk.write(listFiles);
  // With this, what was sent before has arrived, too.
  await Promise.all([
    once(talk, "data"),
    ...[refusedRpc, refusedRest].map((stream) => once(stream, "response")),
  ]);

  const streams = [refusedRpc, refusedRest, check];
  const closed = Promise.all(streams.map((stream) => once(stream, "close")));
  const { requestMsMax, stalledWriteMsMax, checkIntervalMs } = transportLimits;
  vi.advanceTimersByTime(Math.max(requestMsMax, stalledWriteMsMax));
  for (const session of sessions) await new Promise<unknown>((answered) => session.ping(answered));
  expect(streams.map(({ closed }) => closed)).toEqual([false, false, false]);
  vi.advanceTimersByTime(2 * checkIntervalMs);
  await closed;
  // A conversation that began before all of them is still open.
  talk.write(listFiles);
  expect((await once(talk, "data"))[0]).toBeInstanceOf(Buffer);
});
