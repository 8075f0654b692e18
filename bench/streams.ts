// What many streams at once cost: `node bench/streams.ts [streams] [seconds]`. The app sends each
// of them a word a second. Prints the memory beyond that of the warmed process, and the share of a
// core.
import { once } from "node:events";
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { cpuUsOf, processTree, residentMbOf } from "./processes.ts";
import { startKeyrun } from "./start-keyrun.ts";

const streams = Number(process.argv[2] ?? 500);
const seconds = Number(process.argv[3] ?? 60);

const app = createServer((asked, answer) => {
  asked.resume();
  answer.writeHead(200, { "content-type": "application/x-ndjson" }).flushHeaders();
  const talking = setInterval(() => answer.write('{"text":"word "}\n'), 1_000);
  asked.once("end", () => answer.once("close", () => clearInterval(talking)));
});
await once(app.listen(0, "127.0.0.1"), "listening");
const { pid, port, teams, keys, apps, stop } = await startKeyrun({
  KEYRUN_DRAIN_MS_MAX: "0",
  KEYRUN_APP_STREAMS_MAX: "4096",
});
const url = `http://127.0.0.1:${(app.address() as AddressInfo).port}/`;
await teams.createTeam({ team: { id: "crowd" } });
const { value } = await keys.createKey({ teamId: "crowd" });
await apps.createApp({ app: { id: "talk", backend: { kind: { case: "http", value: { url } } } } });

const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
let words = 0;

/** Opens a stream, and resolves with its end once its first bytes have come. */
function open(appId: string): Promise<{ leave(): void; ended: Promise<unknown> }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${value}`, "content-type": "application/json" };
    const path = `/api/apps/${appId}/stream`;
    const asked = request({ port, path, method: "POST", agent, headers }, (answer) => {
      const opened = { leave: () => asked.destroy(), ended: new Promise((end) => answer.once("end", end)) };
      answer.on("error", () => {});
      answer.on("data", (bytes: Buffer) => {
        if (bytes.includes('"delta"')) words += 1;
        resolve(opened);
      });
    });
    asked.on("error", reject).end('{"text":"hello"}');
  });
}

for (let round = 0; round < 40; round += 1) {
  const warm = await Promise.all(Array.from({ length: 100 }, () => open("echo")));
  await Promise.all(warm.map(({ ended }) => ended));
}
await sleep(3_000);
const pids = processTree(pid);
const warmedMb = residentMbOf(pids);
const opened = await Promise.all(Array.from({ length: streams }, () => open("talk")));
await sleep(3_000);
const before = { cpuUs: cpuUsOf(pids), words, atMs: performance.now() };
let peakMb = 0;
for (let second = 0; second < seconds; second += 1) {
  await sleep(1_000);
  peakMb = Math.max(peakMb, residentMbOf(pids));
}
const ms = performance.now() - before.atMs;
const cpuUs = cpuUsOf(pids) - before.cpuUs;
console.log(
  JSON.stringify({
    streams,
    seconds,
    words: words - before.words,
    warmedMb: Math.round(warmedMb),
    addedMb: Math.round(peakMb - warmedMb),
    coreShare: Number((cpuUs / 1_000 / ms).toFixed(3)),
    usPerWord: Math.round(cpuUs / (words - before.words)),
  }),
);
for (const { leave } of opened) leave();
await stop();
process.exit();
