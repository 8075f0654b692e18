import { on, once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, expect, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { h2Opening, headersFrame } from "../harness/h2-frames.ts";
import { keyrunCommand, restRun, serveKeyrun } from "../harness/keyrun-process.ts";
import { residentMemory } from "../harness/resident-memory.ts";
import { quantile } from "./histogram.ts";

const connections = 10_000;
/** Those and these are as many sockets as a process may usually have. */
const sessions = 9_000;
/** Connections that are opened at the same time. */
const openedAtOnce = 100;
const megabytesMax = 350;
const sessionMegabytesMax = 700;
const requests = 300;

const folders = tempFolders();
const sockets: Socket[] = [];

const keyrun = await serveKeyrun(folders.create(), { KEYRUN_PLAN_LIMITS: "free=100000" });

afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  keyrun.kill("SIGKILL");
  await keyrun.exited;
});

test(`beside ${connections} open connections a caller is served, in at most ${megabytesMax} MB`, async () => {
  const made = await keyrunCommand({ KEYRUN_DATA_DIR: keyrun.dataDir }, ["keys", "create", "--team", "demo"]);
  const value = made.stdout.trim();
  await timesOf(value);
  const alone = await timesOf(value);
  const before = Math.round(residentMemory(keyrun.pid).now);
  while (sockets.length < connections) await Promise.all(Array.from({ length: openedAtOnce }, open));
  const beside = await timesOf(value);
  const after = Math.round(residentMemory(keyrun.pid).peak);
  figure("before", before, "MB");
  figure(`with ${connections} connections`, after, "MB");
  figure("p99 of a caller alone", quantile(alone, 0.99), "ms");
  figure("p99 beside them", quantile(beside, 0.99), "ms");
  expect(after).toBeLessThan(megabytesMax);
  expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(0);
});

test(`with ${sessions} HTTP/2 sessions more, none closes, in at most ${sessionMegabytesMax} MB`, async () => {
  for (let opened = 0; opened < sessions; opened += openedAtOnce)
    await Promise.all(Array.from({ length: openedAtOnce }, openSession));
  const { peak } = residentMemory(keyrun.pid);
  figure(`with ${sessions} HTTP/2 sessions more, at most`, peak, "MB");
  expect(peak).toBeLessThan(sessionMegabytesMax);
  expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(0);
});

/** A connection that has had one answer and stays open. */
async function open(): Promise<void> {
  const socket = connect(Number(new URL(keyrun.publicUrl).port), "127.0.0.1");
  sockets.push(socket);
  socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  await once(socket, "data");
}

/** The same over HTTP/2. */
async function openSession(): Promise<void> {
  const socket = connect(Number(new URL(keyrun.publicUrl).port), "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => {});
  const request = [":method GET", ":scheme http", ":path /healthz", ":authority a"];
  const fields = request.map((field) => field.split(" ") as [string, string]);
  socket.write(Buffer.concat([h2Opening, headersFrame(1, fields)]));
  let bytes = 0;
  // The server's SETTINGS are shorter.
  for await (const [chunk] of on(socket, "data", { close: ["close"] })) {
    bytes += chunk.length;
    if (bytes > 60) break;
  }
  socket.resume();
}

async function timesOf(value: string): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < requests; n += 1) {
    const beganMs = performance.now();
    expect((await restRun(keyrun.publicUrl, { value })).status).toBe(200);
    times.push(performance.now() - beganMs);
  }
  return times;
}
