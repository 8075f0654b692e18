import { once } from "node:events";
import { afterAll, expect, test } from "vitest";
import { logOutputBounds } from "#src/log-output.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { residentMemory } from "../harness/resident-memory.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { serveWithUnreadLog } from "../harness/unread-log.ts";

const folders = createTempFolders();
afterAll(folders.remove);

/** No answer takes so long, even on a busy machine, unless something waits for the reader. */
const answerMsMax = 30_000;
/** More than the queue and the buffers of some thousand connections need. */
const grownMegabytesMax = 150;
/** A line of a run whose app can't be reached, at least. */
const failureBytesMin = 400;
/** What a pipe or a socket holds, at most. */
const pipeBytesMax = 256 * 1024;
const failuresMax = Math.ceil((logOutputBounds.waitingBytesMax + pipeBytesMax) / failureBytesMin) + 500;

function serveUnread(settings: Record<string, string>) {
  return serveWithUnreadLog(folders.create(), { KEYRUN_PLAN_LIMITS: "free=100000", ...settings });
}

async function answerOf(url: string): Promise<{ status: number; ms: number }> {
  const begunMs = performance.now();
  const answer = await fetch(url, { signal: AbortSignal.timeout(answerMsMax) });
  await answer.arrayBuffer();
  return { status: answer.status, ms: performance.now() - begunMs };
}

test.each([{ accessLog: "true" }, { accessLog: "false" }])(
  "a stopped reader of the log stops neither probes nor runs, and is told what it missed (access log: $accessLog)",
  async ({ accessLog }) => {
    const keyrun = await serveUnread({ KEYRUN_ACCESS_LOG: accessLog });
    const { child, publicUrl } = keyrun;
    try {
      const created = await keyrun.command(["keys", "create", "--team", "demo"]);
      const value = created.stdout.trim();
      // Port 9 answers nobody: each run of this app is a line of level warn.
      const gone = ["apps", "create", "gone", "--backend", "http", "--url", "http://127.0.0.1:9/run"];
      expect(await keyrun.command(gone)).toMatchObject({ code: 0 });
      const before = residentMemory(child.pid ?? 0).now;

      let sent = 0;
      const fail = async () => {
        while (sent < failuresMax) {
          sent += 1;
          const { status } = await restRun(publicUrl, { value, appId: "gone" });
          expect(status).toBeGreaterThanOrEqual(502);
          await answerOf(`${publicUrl}/nothing`);
        }
      };
      let isOver = false;
      const slowest = { probeMs: 0, runMs: 0 };
      const watch = async () => {
        while (!isOver) {
          const probe = await answerOf(`${publicUrl}/healthz`);
          expect(probe.status).toBe(200);
          const begunMs = performance.now();
          expect(await restRun(publicUrl, { value })).toMatchObject({ status: 200 });
          slowest.probeMs = Math.max(slowest.probeMs, probe.ms);
          slowest.runMs = Math.max(slowest.runMs, performance.now() - begunMs);
        }
      };
      const failing = Promise.all(Array.from({ length: 8 }, fail)).finally(() => {
        isOver = true;
      });
      await Promise.all([failing, watch()]);
      expect(slowest.probeMs).toBeLessThan(answerMsMax);
      expect(slowest.runMs).toBeLessThan(answerMsMax);
      expect(residentMemory(child.pid ?? 0).now - before).toBeLessThan(grownMegabytesMax);

      keyrun.readLog();
      await expect.poll(() => keyrun.log().includes('"dropped":'), { timeout: answerMsMax }).toBe(true);
      child.kill("SIGTERM");
      expect(await keyrun.exited).toEqual([0, null]);
      const lines = keyrun.lines();
      const sum = (member: string) => lines.reduce((total, line) => total + (line[member] ?? 0), 0);
      expect(sum("dropped")).toBeGreaterThan(0);
      if (accessLog === "false") expect(sum("droppedRequests")).toBe(0);
      const written = lines.filter(({ appId, level }) => level === "warn" && appId === "gone").length;
      const counted = written + sum("dropped") - sum("droppedRequests");
      expect(counted).toBeGreaterThanOrEqual(sent);
      // A busy machine makes the event loop late now and then, and its line may be dropped, too.
      expect(counted).toBeLessThanOrEqual(sent + 10);
      expect(lines.at(-1)).toMatchObject({ msg: "stopped" });
    } finally {
      child.kill("SIGKILL");
    }
  },
  180_000,
);

test("a process whose reader never comes back ends all the same", async () => {
  const keyrun = await serveUnread({ KEYRUN_ACCESS_LOG: "true" });
  try {
    for (let sent = 0; sent < 3_000; sent += 100)
      await Promise.all(Array.from({ length: 100 }, () => answerOf(`${keyrun.publicUrl}/nothing`)));
    keyrun.child.kill("SIGTERM");
    expect(await once(keyrun.child, "exit")).toEqual([0, null]);
  } finally {
    keyrun.child.kill("SIGKILL");
    keyrun.readLog();
  }
});
