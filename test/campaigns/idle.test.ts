import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { serveKeyrun } from "../harness/keyrun-process.ts";

const folders = tempFolders();

/** How often the main thread has gone to sleep so far, and so was woken later. */
function sleepsOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/task/${pid}/status`, "utf8");
  return Number(/^voluntary_ctxt_switches:\s+(\d+)$/m.exec(status)?.[1]);
}

test("an idle Keyrun wakes at most 60 times a second", async () => {
  const keyrun = await serveKeyrun(folders.create());
  onTestFinished(() => keyrun.kill("SIGKILL"));
  const wakesPerSecond = async () => {
    const [before, beganMs] = [sleepsOf(keyrun.pid), performance.now()];
    await sleep(5_000);
    return ((sleepsOf(keyrun.pid) - before) / (performance.now() - beganMs)) * 1_000;
  };
  // What a start leaves to be done later is no part of it. A busy machine takes longer to do it.
  await sleep(3_000);
  const isMany = whileAnswer((wakes: number) => wakes >= 60);
  const perSecond = await eventually(wakesPerSecond, { ...isMany, triesMax: 5 });
  figure("an idle Keyrun wakes each second", perSecond, "times");
  expect(perSecond).toBeGreaterThan(0);
});
