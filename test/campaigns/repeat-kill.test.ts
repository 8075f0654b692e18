import { randomUUID } from "node:crypto";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { manage } from "../harness/keyrun.ts";
import { type ServingKeyrun, serveKeyrun } from "../harness/keyrun-process.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
const settings = { KEYRUN_PLAN_LIMITS: "free=100000" };
let app: Awaited<ReturnType<typeof startScriptedApp>>;
let running: ServingKeyrun | undefined;

beforeAll(async () => {
  app = await startScriptedApp();
});
afterEach(async () => {
  running?.kill("SIGKILL");
  await running?.exited;
});
afterAll(async () => {
  await app.close();
  folders.remove();
});

async function start(dataDir: string, more: Readonly<Record<string, string>> = {}) {
  running = await serveKeyrun(dataDir, { ...settings, ...more });
  return running;
}

/** A Keyrun with the app, whose runs take at most so long, and a key. */
async function firstStart(dataDir: string, seconds: bigint, more: Readonly<Record<string, string>> = {}) {
  const keyrun = await start(dataDir, more);
  const management = manage(keyrun.internalUrl, keyrun.serviceToken());
  const timeout = { seconds, nanos: 0 };
  await management.apps.createApp({ app: { id: "counted", backend: app.backend, timeout } });
  const { value } = await management.newKey("demo");
  management.disconnect();
  return { keyrun, value };
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
  for (;;) {
    const answer = await ask(url, value, key);
    if (!answer) throw new Error("the connection was lost");
    if (answer.status !== 409 && answer.status !== 503) return answer;
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

/** An app may be late on a busy machine: that is an answer for good, too. */
const finalStatuses = [200, 502, 504];

const cycles = campaignSize("idempotency-kills");

test(`kill -9 at any point: an app is started at most once for a key, and every key gets an answer, ${cycles} times over`, {
  timeout: 180_000 + cycles * 20_000,
}, async () => {
  const dataDir = folders.create();
  const answers = new Map<string, Answer | undefined>();
  const first = await firstStart(dataDir, 1n);
  const { value } = first;
  let { keyrun } = first;
  for (let cycle = 0; cycle < cycles; cycle++) {
    const url = keyrun.publicUrl;
    const unanswered = [...answers].filter(([, answer]) => !answer).map(([key]) => key);
    let isOver = false;
    let sent = 0;
    // Two callers send each key at the same time; those left from before are asked again.
    const callers = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        const key = unanswered.pop() ?? `hello ${randomUUID()}`;
        answers.set(key, answers.get(key));
        sent += 1;
        const pair = await Promise.all([ask(url, value, key), ask(url, value, key)]);
        const answer = pair.find((each) => each && finalStatuses.includes(each.status));
        if (answer) answers.set(key, answer);
      }
    });
    const target = 3 + ((cycle * 29) % 41);
    while (sent < target) await turn();
    for (let turns = (cycle * 17) % 23; turns > 0; turns--) await turn();
    keyrun.kill("SIGKILL");
    isOver = true;
    await keyrun.exited;
    await Promise.all(callers);
    keyrun = await start(dataDir);
  }

  let answered = 0;
  const wrong: string[] = [];
  const check = async ([key, before]: [string, Answer | undefined]) => {
    const answer = await askUntilAnswered(keyrun.publicUrl, value, key);
    const starts = app.starts(key);
    if (answer.status === 200) answered += 1;
    if (!finalStatuses.includes(answer.status)) wrong.push(`${key}: ${answer.status}`);
    if (starts > 1) wrong.push(`${key} was started ${starts} times`);
    if (answer.status === 200 && starts !== 1) wrong.push(`${key} has an answer without a start`);
    if (before && (before.status !== answer.status || before.runId !== answer.runId)) {
      wrong.push(`${key} had another answer before`);
    }
  };
  const left = [...answers];
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (let one = left.pop(); one; one = left.pop()) await check(one);
    }),
  );
  figure("keys", answers.size);
  figure("answered", answered);
  figure("cut off or late", answers.size - answered);
  figure("started twice or without an answer", wrong.length);
  expect(wrong).toEqual([]);
  expect(answers.size).toBeGreaterThan(3 * cycles);
});

test("a run goes on through a drain though its caller left, and the next start has its answer", async () => {
  const dataDir = folders.create();
  const { keyrun, value } = await firstStart(dataDir, 30n);
  const key = `wait ${randomUUID()}`;
  const caller = new AbortController();
  const left = ask(keyrun.publicUrl, value, key, caller.signal);
  await app.started(key);
  caller.abort();
  expect(await left).toBeUndefined();
  keyrun.kill("SIGTERM");
  while ((await fetch(`${keyrun.publicUrl}/readyz`).catch(() => undefined))?.ok) await turn();
  app.release(key);
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
  const next = await start(dataDir);
  expect(await ask(next.publicUrl, value, key)).toMatchObject({ status: 200 });
  expect(app.starts(key)).toBe(1);
});

test("a run that the end of a drain cuts off is in use for the app's time, and then has failed", async () => {
  const dataDir = folders.create();
  const { keyrun, value } = await firstStart(dataDir, 15n, { KEYRUN_DRAIN_MS_MAX: "10" });
  const key = `hang ${randomUUID()}`;
  const asked = ask(keyrun.publicUrl, value, key);
  await app.started(key);
  keyrun.kill("SIGTERM");
  expect(await asked).toMatchObject({ status: 503 });
  await keyrun.exited;
  const next = await start(dataDir);
  expect(await ask(next.publicUrl, value, key)).toMatchObject({ status: 409 });
  expect(await askUntilAnswered(next.publicUrl, value, key)).toMatchObject({ status: 502 });
  expect(app.starts(key)).toBe(1);
});
