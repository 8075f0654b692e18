import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { bodyOf, serveGrpc, serveHttp } from "../harness/app-backends.ts";
import { serveHostileApps } from "../harness/hostile-apps.ts";
import { type Keyrun, readMetric, startKeyrun } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";

const bytesMax = 16 * 1024 * 1024;
const text = "x".repeat(1_000_000);

let keyrun: Keyrun;
beforeEach(async () => {
  keyrun = await startKeyrun({ settings: { KEYRUN_RUN_BYTES_MAX: String(bytesMax) } });
});
afterEach(() => keyrun.close());

const newKey = async () => (await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE))).value;
const reserved = () => readMetric(keyrun.internalUrl, keyrun.serviceToken, "keyrun_run_bytes");
const expectReserved = (bytes: number) => expect.poll(reserved).toBe(bytes);

/** Makes the HTTP app `slow`, each of whose runs waits until its function is called. */
async function serveSlowApp() {
  const waiting: (() => void)[] = [];
  const server = await serveHttp((request, response) => {
    bodyOf(request).then(() => waiting.push(() => response.end(JSON.stringify({ text: "done" }))));
  });
  await keyrun.apps.createApp({
    app: { id: "slow", backend: { kind: { case: "http", value: server.backend } } },
  });
  return { waiting, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

/** Sends the head of a run of the echo. */
function upload(value: string): { socket: Socket; answer: Promise<string> } {
  const body = JSON.stringify({ text });
  const { port } = new URL(keyrun.publicUrl);
  const socket = connect(Number(port), "127.0.0.1");
  const head = [
    "POST /api/apps/echo/run HTTP/1.1",
    ...["Host: a", `Authorization: Bearer ${value}`, "Content-Type: application/json"],
    `Content-Length: ${body.length}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  const answer = once(socket, "data").then(([bytes]) => String(bytes));
  answer.catch(() => {});
  return { socket, answer };
}

test("announced bodies of one team reserve half of the bound before a byte of them has come, are refused past it, and another team is served", async () => {
  const [greedy, other] = [await newKey(), await newKey()];
  let refused = 0;
  const uploads = Array.from({ length: 20 }, () => {
    const each = upload(greedy);
    each.answer.then((answer) => {
      expect(answer).toMatch(/^HTTP\/1.1 503 /);
      expect(answer).toMatch(/^retry-after: 1\r$/im);
      expect(answer).toContain('"code":"overloaded"');
      expect(answer).not.toMatch(/x-should-retry/i);
      refused += 1;
    });
    return each;
  });
  // Four of them take 2 MB each.
  await expect.poll(() => refused).toBe(16);
  expect(await reserved()).toBeLessThanOrEqual(bytesMax / 2);
  expect((await restRun(keyrun.publicUrl, { value: other, text: "served" })).status).toBe(200);
  for (const { socket } of uploads) socket.destroy();
  await expectReserved(0);
});

test("runs that wait for HTTP apps have reserved for their request, and give it back at their end", async () => {
  const value = await newKey();
  await using app = await serveSlowApp();
  const { waiting } = app;
  const runs = Array.from({ length: 4 }, () => restRun(keyrun.publicUrl, { value, appId: "slow", text }));
  await expect.poll(() => waiting.length).toBe(4);
  expect(await reserved()).toBeGreaterThanOrEqual(8_000_000);
  for (const answer of waiting) answer();
  expect((await Promise.all(runs)).map(({ status }) => status)).toEqual(Array(4).fill(200));
  await expectReserved(0);
});

test("a small run reserves nothing, whatever its team has reserved", async () => {
  const value = await newKey();
  const uploads = Array.from({ length: 4 }, () => upload(value));
  await expect.poll(reserved).toBeGreaterThanOrEqual(8_000_000);
  const before = await reserved();
  expect((await restRun(keyrun.publicUrl, { value, text: "x".repeat(8_000) })).status).toBe(200);
  expect(await reserved()).toBe(before);
  for (const { socket } of uploads) socket.destroy();
  await expectReserved(0);
});

test("a body without a length reserves as it grows, and a compressed one for the text that is made of it", async () => {
  const value = await newKey();
  await using app = await serveSlowApp();
  const { waiting } = app;
  const json = "application/json";
  const chunked = fetch(`${keyrun.publicUrl}/api/apps/slow/run`, {
    ...{ method: "POST", body: new Blob([JSON.stringify({ text })]).stream(), duplex: "half" },
    headers: { authorization: `Bearer ${value}`, "content-type": json },
  });
  await expect.poll(() => waiting.length).toBe(1);
  expect(await reserved()).toBeGreaterThanOrEqual(2 * text.length);
  const before = await reserved();
  const compressed = fetch(`${keyrun.publicUrl}/keyrun.v1.RunService/RunApp`, {
    ...{ method: "POST", body: gzipSync(JSON.stringify({ appId: "slow", text })) },
    headers: {
      ...{ authorization: `Bearer ${value}`, "content-type": json },
      ...{ "content-encoding": "gzip", "connect-protocol-version": "1" },
    },
  });
  await expect.poll(() => waiting.length).toBe(2);
  expect(await reserved()).toBe(before + 2 * text.length);
  for (const answer of waiting) answer();
  expect([(await chunked).status, (await compressed).status]).toEqual([200, 200]);
  await expectReserved(0);
});

test("runs that wait for gRPC apps have reserved for their request, and give it back at their end, whatever that is", async () => {
  const value = await newKey();
  const waiting: (() => void)[] = [];
  await using server = await serveGrpc((_, answer) => {
    waiting.push(() => answer(null, { text: "done" }));
  });
  const { target, tls } = server.backend;
  await keyrun.apps.createApp({
    app: { id: "slow", backend: { kind: { case: "grpc", value: { target, tls } } } },
  });
  const ends = [new AbortController(), new AbortController()];
  const runs = ends.map(({ signal }) =>
    fetch(`${keyrun.publicUrl}/api/apps/slow/run`, {
      ...{ method: "POST", signal, body: JSON.stringify({ text }) },
      headers: { authorization: `Bearer ${value}`, "content-type": "application/json" },
    }).then(
      ({ status }) => status,
      () => "left",
    ),
  );
  await expect.poll(() => waiting.length).toBe(2);
  expect(await reserved()).toBeGreaterThanOrEqual(4_000_000);
  expect(await reserved()).toBeLessThanOrEqual(bytesMax / 2);
  ends[0]?.abort();
  expect(await runs[0]).toBe("left");
  for (const answer of waiting) answer();
  expect(await runs[1]).toBe(200);
  await expectReserved(0);
});

test.each([
  "line-without-end",
  "event-without-end",
  "whole-but-a-byte",
  "long-events",
  "long-wide-lines",
  "grpc-long-messages",
] as const)(
  "unread streams of the app %s are counted, refused past the bound, and give all back",
  async (name) => {
    const [greedy, other] = [await newKey(), await newKey()];
    await using apps = await serveHostileApps();
    await keyrun.apps.createApp({ app: { id: name, backend: apps.backends[name] } });
    const session = connectHttp2(keyrun.publicUrl);
    const headers = {
      ...{ ":method": "POST", ":path": `/api/apps/${name}/stream`, authorization: `Bearer ${greedy}` },
      ...{ "content-type": "application/json", accept: "application/x-ndjson" },
    };
    const open = () =>
      void session
        .request(headers)
        .on("error", () => {})
        .end('{"text":"x"}');
    for (let opened = 0; opened < 20; opened += 1) open();
    // Each of them would reserve a megabyte or more. On a busy machine, all of them may be shed.
    await expect
      .poll(() => {
        open();
        return reserved();
      })
      .toBeGreaterThan(0.75 * (bytesMax / 2));
    const refused = () => keyrun.metric(`keyrun_app_runs_total{app="${name}",outcome="other"}`);
    await expect.poll(refused).toBeGreaterThanOrEqual(4);
    expect(await reserved()).toBeLessThanOrEqual(bytesMax / 2);
    expect((await restRun(keyrun.publicUrl, { value: other, text: "served" })).status).toBe(200);
    session.destroy();
    await expectReserved(0);
  },
);
