import { expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

const clock = createManualClock();

const app = closedAtEnd(await startScriptedApp());
const keyrun = closedAtEnd(await startKeyrun({ clock }));
await keyrun.apps.createApp({ app: { id: "shared", backend: app.backend } });

const newKey = async () => (await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE))).value;
const run = (value: string, text = "wait") => restRun(keyrun.publicUrl, { value, appId: "shared", text });

/** Starts 80 runs, and returns those that the app holds and the answers to the others. */
async function flood(value: string, heldMax: number) {
  const refusals: Awaited<ReturnType<typeof run>>[] = [];
  const all = Array.from({ length: 80 }, async () => {
    const answer = await run(value);
    if (answer.status !== 200) refusals.push(answer);
    return answer.status;
  });
  await expect.poll(() => app.waiting() + refusals.length).toBe(80);
  expect(app.waiting()).toBe(heldMax);
  for (const { status, body, headers } of refusals) {
    expect(status).toBe(503);
    expect(JSON.parse(body).error.code).toBe("app_busy");
    expect(headers.get("retry-after")).toBe("1");
  }
  return all;
}

test("80 runs of one team leave a quarter of an app's slots to a team that ran it within the last minute", async () => {
  const [greedy, other] = [await newKey(), await newKey()];
  expect((await run(other, "hello")).status).toBe(200);
  const shared = await flood(greedy, 48);
  expect((await run(other, "hello")).status).toBe(200);
  app.release();
  await Promise.all(shared);

  clock.advance(60_000);
  const alone = await flood(greedy, 64);
  expect((await run(other, "hello")).status).toBe(503);
  app.release();
  expect((await Promise.all(alone)).filter((status) => status === 200)).toHaveLength(64);
});
