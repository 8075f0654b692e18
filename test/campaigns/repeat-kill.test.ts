import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { campaignSize } from "../harness/campaigns.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { statusOf } from "../harness/keyrun-process.ts";
import { inFolder, killAndCheck, type Running, type Writer } from "../harness/kills.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { until } from "../harness/until.ts";

const app = closedAtEnd(await startScriptedApp());

/** The app, whose runs take at most so long, and a key. */
async function prepare({ manager }: Running, seconds: bigint): Promise<string> {
  const timeout = { seconds, nanos: 0 };
  await manager.apps.createApp({ app: { id: "counted", backend: app.backend, timeout } });
  return (await manager.newKey("demo")).value;
}

interface Answer {
  readonly status: number;
  readonly runId: string | undefined;
}

/** The answer to one request; undefined if the connection was lost. */
async function ask(
  url: string,
  value: string,
  key: string,
  signal?: AbortSignal,
): Promise<Answer | undefined> {
  try {
    const answer = await fetch(`${url}/api/apps/counted/run`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${value}`,
        "content-type": "application/json",
        "idempotency-key": key.replace(" ", "-"),
      },
      body: JSON.stringify({ text: key }),
      ...(signal && { signal }),
    });
    return { status: answer.status, runId: ((await answer.json()) as { runId?: string }).runId };
  } catch {
    return undefined;
  }
}

/** Asks, as the answers say, until there is an answer for good. */
async function askUntilAnswered(url: string, value: string, key: string): Promise<Answer> {
  const attempt = async () => {
    const answer = await ask(url, value, key);
    if (!answer) throw new Error("the connection was lost");
    return answer;
  };
  const isNone = ({ status }: Answer) => status === 409 || status === 503;
  return eventually(attempt, { ...whileAnswer(isNone), triesMax: 120, pauseMs: 1_000 });
}

/** An app may be late on a busy machine: that is an answer for good, too. */
const finalStatuses = [200, 502, 504];

const cycles = campaignSize("idempotency-kills");

test(`kill -9 at any point: an app is started at most once for a key, and every key gets an answer, ${cycles} times over`, {
  timeout: 180_000 + cycles * 20_000,
}, async () => {
  const writer = runWriter();
  await killAndCheck(inFolder(), writer, cycles);
  expect(writer.figures().keys).toBeGreaterThan(3 * cycles);
});

/** Two callers send each key at the same time; those left from before are asked again. */
function runWriter(): Writer {
  const answers = new Map<string, Answer | undefined>();
  let value = "";
  let [sent, target, answered, startedTwice] = [0, 0, 0, 0];

  async function wrongAtLast(url: string): Promise<string[]> {
    const wrong: string[] = [];
    const check = async ([key, before]: [string, Answer | undefined]) => {
      const answer = await askUntilAnswered(url, value, key);
      const starts = app.starts(key);
      if (answer.status === 200) answered += 1;
      if (starts > 1) startedTwice += 1;
      if (!finalStatuses.includes(answer.status)) wrong.push(`${key}: ${answer.status}`);
      if (starts > 1) wrong.push(`${key} was started ${starts} times`);
      if (answer.status === 200 && starts !== 1) wrong.push(`${key} has an answer without a start`);
      if (before && (before.status !== answer.status || before.runId !== answer.runId)) {
        wrong.push(`${key} had another answer before`);
      }
    };
    const left = [...answers];
    const lane = async () => {
      for (let one = left.pop(); one; one = left.pop()) await check(one);
    };
    await Promise.all(Array.from({ length: 16 }, lane));
    return wrong;
  }

  return {
    async write([running], cycle, isOver) {
      if (!running) return;
      [sent, target] = [0, 3 + ((cycle * 29) % 41)];
      value ||= await prepare(running, 1n);
      const unanswered = [...answers].filter(([, answer]) => !answer).map(([key]) => key);
      const lane = async () => {
        while (!isOver()) {
          const key = unanswered.pop() ?? `hello ${randomUUID()}`;
          answers.set(key, answers.get(key));
          sent += 1;
          const pair = [ask(running.publicUrl, value, key), ask(running.publicUrl, value, key)];
          const answer = (await Promise.all(pair)).find(
            (each) => each && finalStatuses.includes(each.status),
          );
          if (answer) answers.set(key, answer);
        }
      };
      await Promise.all(Array.from({ length: 8 }, lane));
    },
    isDue: () => sent >= target && target > 0,
    laterMsMax: 12,
    wrong: async ([running], isLast) => (running && isLast ? wrongAtLast(running.publicUrl) : []),
    figures: () => ({ keys: answers.size, answered, "started twice": startedTwice }),
  };
}

test("a run goes on through a drain though its caller left, and the next start has its answer", async () => {
  const place = inFolder();
  onTestFinished(place.close);
  const keyrun = await place.startOne();
  const value = await prepare(keyrun, 30n);
  const key = `wait ${randomUUID()}`;
  const caller = new AbortController();
  const left = ask(keyrun.publicUrl, value, key, caller.signal);
  await app.started(key);
  caller.abort();
  expect(await left).toBeUndefined();
  keyrun.kill("SIGTERM");
  await until(async () => (await statusOf(`${keyrun.publicUrl}/readyz`)) !== 200, 1);
  app.release(key);
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
  const next = await place.startOne();
  expect(await ask(next.publicUrl, value, key)).toMatchObject({ status: 200 });
  expect(app.starts(key)).toBe(1);
});

test("a run that the end of a drain cuts off was interrupted, as the next start says at once", async () => {
  const place = inFolder();
  onTestFinished(place.close);
  const keyrun = await place.startOne({ KEYRUN_DRAIN_MS_MAX: "10" });
  const value = await prepare(keyrun, 15n);
  const key = `hang ${randomUUID()}`;
  const asked = ask(keyrun.publicUrl, value, key);
  await app.started(key);
  keyrun.kill("SIGTERM");
  expect(await asked).toMatchObject({ status: 503 });
  await keyrun.exited;
  const next = await place.startOne();
  expect(await ask(next.publicUrl, value, key)).toMatchObject({ status: 502 });
  expect(app.starts(key)).toBe(1);
});
