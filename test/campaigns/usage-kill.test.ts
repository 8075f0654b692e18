import { expect, onTestFinished, test } from "vitest";
import { restRun } from "../harness/keyrun-process.ts";
import { inFolder, type Running } from "../harness/kills.ts";
import { queryStore } from "../harness/stored-bytes.ts";
import { until } from "../harness/until.ts";

test("kill -9 loses no more than was not written yet, a stop loses nothing, and nothing counts twice", async () => {
  const place = inFolder();
  onTestFinished(place.close);
  const accepted = async ({ manager }: Running) => {
    const { points } = await manager.keys.getUsage({ teamId: "demo" });
    return Number(points.reduce((sum, { acceptedCount }) => sum + acceptedCount, 0n));
  };
  const first = await place.startOne();
  const { value = "" } = await first.manager.keys.createKey({ teamId: "demo" });
  const run = async ({ publicUrl }: Running, times: number) => {
    for (let n = 0; n < times; n++) expect((await restRun(publicUrl, { value })).status).toBe(200);
  };
  await run(first, 20);
  // Without a stop, it is written by itself.
  await until(async () => {
    const [row] = await queryStore(place.path, "SELECT sum(accepted_count) AS n FROM usage_hours");
    return Number(row?.n) >= 20;
  }, 250);
  expect(await accepted(first)).toBe(20);
  await run(first, 5);
  await place.kill();

  const second = await place.startOne();
  const kept = await accepted(second);
  // The last five, unless they were written.
  expect([20, 21, 22, 23, 24, 25]).toContain(kept);
  await run(second, 7);
  await place.end("SIGTERM");
  expect(await accepted(await place.startOne())).toBe(kept + 7);
});
