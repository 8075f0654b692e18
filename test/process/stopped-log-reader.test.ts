import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { logOutputBounds } from "#src/log/log-output.ts";
import { figures } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { keyrunPlaces } from "../harness/keyrun-places.ts";
import { isOverloaded, repository, restRunOnce, statusOf } from "../harness/keyrun-process.ts";
import { residentMemory } from "../harness/resident-memory.ts";

const { place: placeOn } = keyrunPlaces();

/** More than the queue and the buffers of some thousand connections need. */
const grownMegabytesMax = 150;
/** A line of a run whose app can't be reached, at least. */
const failureBytesMin = 400;
/** What a pipe or a socket holds, at most. */
const pipeBytesMax = 256 * 1024;
const failuresMax = Math.ceil((logOutputBounds.waitingBytesMax + pipeBytesMax) / failureBytesMin) + 500;

/** The real process with an access log, whose log is read by nobody until `readLog`. */
async function serveUnread() {
  const { settings, command } = placeOn({ KEYRUN_PLAN_LIMITS: "free=100000", KEYRUN_ACCESS_LOG: "true" });
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(process.execPath, ["src/main.ts", "serve"], {
    cwd: repository,
    env: { PATH, HOME, KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0", ...settings },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "close");
  let log = "";
  const readLog = () =>
    void child.stderr.setEncoding("utf8").on("data", (text: string) => {
      log += text;
    });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    readLog();
    await exited;
  });
  let started = "";
  for await (const text of child.stdout.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
    started += text;
    if (started.includes("curl ")) break;
  }
  child.stdout.resume();
  const [, publicUrl = ""] = /ready: (\S+) /.exec(started) ?? [];
  return { child, command, exited, publicUrl, readLog, log: () => log };
}

test("a stopped reader of the log stops neither probes nor runs, and every line that it missed is counted", async () => {
  const keyrun = await serveUnread();
  const { child, publicUrl } = keyrun;
  const value = (await keyrun.command(["keys", "create", "--team", "demo"])).stdout.trim();
  // Port 9 answers nobody: each run of this app is a line of level warn.
  const gone = ["apps", "create", "gone", "--backend", "http", "--url", "http://127.0.0.1:9/run"];
  expect(await keyrun.command(gone)).toMatchObject({ code: 0 });
  const before = residentMemory(child.pid ?? 0).now;

  const sent = { failures: 0, requests: 0 };
  // One that is refused, as the event loop was late, has a line in the access log, too.
  const run = (appId: string) =>
    eventually(() => {
      sent.requests += 1;
      return restRunOnce(publicUrl, { value, appId });
    }, whileAnswer(isOverloaded));
  const fail = async () => {
    while (sent.failures < failuresMax) {
      sent.failures += 1;
      expect((await run("gone")).status).toBeGreaterThanOrEqual(502);
    }
  };
  let isOver = false;
  const slowest = { probe: 0, run: 0 };
  const timed = async (what: keyof typeof slowest, work: () => Promise<unknown>) => {
    const begunMs = performance.now();
    await work();
    slowest[what] = Math.max(slowest[what], performance.now() - begunMs);
  };
  const watch = async () => {
    while (!isOver) {
      await timed("probe", async () => expect(await statusOf(`${publicUrl}/healthz`)).toBe(200));
      await timed("run", async () => expect(await run("echo")).toMatchObject({ status: 200 }));
    }
  };
  const failing = Promise.all(Array.from({ length: 8 }, fail)).finally(() => {
    isOver = true;
  });
  await Promise.all([failing, watch()]);
  figures("slowest answer beside a stopped reader, ms", slowest);
  expect(residentMemory(child.pid ?? 0).now - before).toBeLessThan(grownMegabytesMax);

  keyrun.readLog();
  await expect.poll(keyrun.log).toContain('"dropped":');
  child.kill("SIGTERM");
  expect(await keyrun.exited).toEqual([0, null]);
  const log = keyrun.log().trimEnd().split("\n");
  const lines = log.map((line) => JSON.parse(line));
  const sum = (member: string) => lines.reduce((total, line) => total + (line[member] ?? 0), 0);
  const count = (isOne: (line: { msg?: string; appId?: string; level?: string }) => boolean) =>
    lines.filter(isOne).length;
  const droppedRequests = sum("droppedRequests");
  expect(droppedRequests).toBeGreaterThan(0);
  expect(sum("dropped")).toBeGreaterThan(droppedRequests);
  const requests = count(({ msg }) => msg === "request") + droppedRequests;
  const warnings =
    count(({ appId, level }) => level === "warn" && appId === "gone") + sum("dropped") - droppedRequests;
  // The two commands have lines, too. A busy machine makes the event loop late now and then, and
  // its line may be dropped.
  for (const [counted, atLeast] of [
    [requests, sent.requests],
    [warnings, sent.failures],
  ] as const) {
    expect(counted).toBeGreaterThanOrEqual(atLeast);
    expect(counted).toBeLessThanOrEqual(atLeast + 10);
  }
  expect(lines.at(-1)).toMatchObject({ msg: "stopped" });
});

test("a process whose reader never comes back ends all the same", async () => {
  const { child, publicUrl } = await serveUnread();
  const answers = async () => expect(await statusOf(`${publicUrl}/nothing`)).toBe(404);
  for (let sent = 0; sent < 3_000; sent += 100) await Promise.all(Array.from({ length: 100 }, answers));
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});
