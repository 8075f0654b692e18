// What runs in the background cost that wait for their apps: `node bench/background-runs.ts [runs]
// [seconds] [rounds]`. Prints the memory beyond that of the warmed process, the share of a core,
// and what a run of `echo` at 32 connections costs beside them, as a ratio to one of a Keyrun
// without them that takes turns with it.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { loadHttp1 } from "./load.ts";
import { cpuUsOf, processTree, residentMbOf } from "./processes.ts";
import { startKeyrun } from "./start-keyrun.ts";

const runs = Number(process.argv[2] ?? 1_000);
const seconds = Number(process.argv[3] ?? 60);
const rounds = Number(process.argv[4] ?? 31);
const appCount = 4;
/** Each run's text, in letters. */
const textLength = 1_000;

// It never answers.
const app = createServer((asked) => asked.resume());
await once(app.listen(0, "127.0.0.1"), "listening");
const url = `http://127.0.0.1:${(app.address() as AddressInfo).port}/`;

async function start() {
  const keyrun = await startKeyrun({ KEYRUN_DRAIN_MS_MAX: "0" });
  await keyrun.teams.createTeam({ team: { id: "crowd" } });
  const { value } = await keyrun.keys.createKey({ teamId: "crowd" });
  const pids = processTree(keyrun.pid);
  const body = '{"text":"hello"}';
  const head = `POST /api/apps/echo/run HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${value}\r\ncontent-type: application/json\r\n`;
  const requests = [`${head}content-length: ${body.length}\r\n\r\n${body}`];
  /** Microseconds of processor time a request. */
  const costOf = async (count: number) => {
    const before = cpuUsOf(pids);
    await loadHttp1(keyrun.port, { requests, expected: "hello" }, { connections: 32, requests: count });
    return (cpuUsOf(pids) - before) / count;
  };
  return { ...keyrun, value, pids, costOf };
}

const [beside, without] = [await start(), await start()];
for (let n = 0; n < appCount; n += 1) {
  await beside.apps.createApp({
    app: { id: `wait-${n}`, backend: { kind: { case: "http", value: { url } } } },
  });
}
for (const each of [beside, without]) await each.costOf(20_000);
await sleep(3_000);
const warmedMb = residentMbOf(beside.pids);
for (let n = 0; n < runs; n += 1) {
  const answer = await fetch(`http://127.0.0.1:${beside.port}/api/apps/wait-${n % appCount}/run`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${beside.value}`,
      "content-type": "application/json",
      prefer: "respond-async",
    },
    body: JSON.stringify({ text: "x".repeat(textLength) }),
  });
  if (answer.status !== 202) throw new Error(`${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}
await sleep(3_000);
const before = { cpuUs: cpuUsOf(beside.pids), atMs: performance.now() };
let peakMb = 0;
for (let second = 0; second < seconds; second += 1) {
  await sleep(1_000);
  peakMb = Math.max(peakMb, residentMbOf(beside.pids));
}
const coreShare = (cpuUsOf(beside.pids) - before.cpuUs) / 1_000 / (performance.now() - before.atMs);
const ratios: number[] = [];
for (let round = 0; round < rounds; round += 1) {
  const ofBeside = await beside.costOf(2_000);
  ratios.push(ofBeside / (await without.costOf(2_000)));
}
ratios.sort((a, b) => a - b);
console.log(
  JSON.stringify({
    runs,
    seconds,
    warmedMb: Math.round(warmedMb),
    addedMb: Math.round(peakMb - warmedMb),
    coreShare: Number(coreShare.toFixed(4)),
    echoRatio: Number(ratios[Math.floor(rounds / 2)]!.toFixed(3)),
    quartiles: [0.25, 0.75].map((share) => Number(ratios[Math.floor(rounds * share)]!.toFixed(3))),
  }),
);
await Promise.all([beside.stop(), without.stop()]);
process.exit();
