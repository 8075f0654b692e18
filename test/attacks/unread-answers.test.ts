import { afterEach, expect, test } from "vitest";
import { type Attack, startAttack, startOtherCaller } from "../harness/attack.ts";
import { type AttackedKeyrun, attackedKeyrun } from "../harness/attacked-keyrun.ts";
import { figure } from "../harness/campaigns.ts";

let running: AttackedKeyrun | undefined;

afterEach(() => running?.close());

async function start(): Promise<AttackedKeyrun> {
  running = await attackedKeyrun();
  return running;
}

/** Ends the attack. Then no answer may wait, and the memory must have stayed within the bound. */
async function expectNothingLeft(
  keyrun: AttackedKeyrun,
  attack: Attack,
  { megabytesMax }: { megabytesMax: number },
): Promise<void> {
  await attack.stop();
  // A connection over HTTP/1.1 that is not read is seen as dead only after its write has stalled
  // for 30 s.
  await expect
    .poll(() => keyrun.metric("keyrun_unread_answer_bytes"), { timeout: 150_000, interval: 100 })
    .toBe(0);
  const { peak } = keyrun.memory();
  figure(`${JSON.stringify(attack.load())}: at most`, peak, "MB");
  expect(peak).toBeLessThanOrEqual(megabytesMax);
}

test("200 sessions of 128 streams that read no answer take at most 700 MB without a key, and another caller is answered", async () => {
  const keyrun = await start();
  const other = startOtherCaller(keyrun);
  // A stream that is refused is replaced by another one.
  const attack = startAttack("unread-streams", [keyrun.port, 200, 128, 300, "/openapi.json"]);
  await attack.until(({ requests, answers }) => requests >= 25_600 && answers >= 500);
  await other.stop();

  expect(attack.load().connections).toBe(200);
  await expectNothingLeft(keyrun, attack, { megabytesMax: 700 });
});

test("590 runs with answers of 1 MiB that nobody reads take at most 700 MB, and another caller is answered", async () => {
  const keyrun = await start();
  const other = startOtherCaller(keyrun);
  const attack = startAttack("unread-runs", [keyrun.port, 59, 10, 1_048_000, "echo", keyrun.key]);
  await attack.until(({ answers }) => answers >= 590);
  await other.stop();

  expect(attack.load().statuses["200"]).toBeGreaterThan(60);
  await expectNothingLeft(keyrun, attack, { megabytesMax: 700 });
});

test("200 connections that pipeline 1,500 requests each and read nothing take at most 700 MB, and another caller is answered", async () => {
  const keyrun = await start();
  const other = startOtherCaller(keyrun);
  const attack = startAttack("unread-pipeline", [keyrun.port, 200, 1_500, "/openapi.json"]);
  await attack.until(({ requests }) => requests === 300_000);
  await other.stop();

  await expectNothingLeft(keyrun, attack, { megabytesMax: 700 });
});
