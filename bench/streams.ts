// What many streams at once cost: `node bench/streams.ts [streams] [seconds]`. The app sends each
// of them a word a second. Prints the memory beyond that of the warmed process, and the share of a
// core.
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { spawnServer } from "./child-server.ts";
import { cpuUsOf, processTree, residentMbOf } from "./processes.ts";

const streams = Number(process.argv[2] ?? 500);
const seconds = Number(process.argv[3] ?? 60);

const app = createServer((asked, answer) => {
  asked.resume();
  answer.writeHead(200, { "content-type": "application/x-ndjson" }).flushHeaders();
  const talking = setInterval(() => answer.write('{"text":"word "}\n'), 1_000);
  asked.once("end", () => answer.once("close", () => clearInterval(talking)));
});
await once(app.listen(0, "127.0.0.1"), "listening");
const dataDir = mkdtempSync(join(tmpdir(), "keyrun-bench-"));
const program = fileURLToPath(new URL("../keyrun", import.meta.url));
const { pid, match, stop } = await spawnServer([program, "serve"], /ready: http:.*:(\d+) \(gRPC .*:(\d+)\)/, {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  KEYRUN_PORT: "0",
  KEYRUN_GRPC_PORT: "0",
  KEYRUN_DATA_DIR: dataDir,
  KEYRUN_LOG_LEVEL: "warn",
  KEYRUN_DRAIN_MS_MAX: "0",
  KEYRUN_APP_STREAMS_MAX: "4096",
  KEYRUN_PLAN_LIMITS: "free=100000,pro=100000,team=100000,enterprise=100000",
});
const [port, internalPort] = match.slice(1).map(Number);
const token = readFileSync(join(dataDir, "service-token"), "utf8").trim();
const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${internalPort}` });
const options = { headers: { authorization: `Bearer ${token}` } };
const url = `http://127.0.0.1:${(app.address() as AddressInfo).port}/`;
await createClient(TeamService, transport).createTeam({ team: { id: "crowd" } }, options);
const { value } = await createClient(KeyService, transport).createKey({ teamId: "crowd" }, options);
await createClient(AppService, transport).createApp(
  { app: { id: "talk", backend: { kind: { case: "http", value: { url } } } } },
  options,
);

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
rmSync(dataDir, { recursive: true });
process.exit();
