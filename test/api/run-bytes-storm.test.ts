import type { ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { bodyOf, serveHttp, serveTcp } from "../harness/app-backends.ts";
import type { CallerMaker } from "../harness/callers.ts";
import { campaignSize, figure, figures } from "../harness/campaigns.ts";
import { type IssuedKey, type Keyrun, readMetric, startKeyrun } from "../harness/keyrun.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { seededRandom } from "../harness/seeded-random.ts";
import { connectStreamCallers, readAll, type StreamCallerMaker } from "../harness/stream-callers.ts";
import { kindOf, type Script, type ServedApp, serveGrpcApp } from "../harness/streamed-apps.ts";
import { openTcpProxy, type TcpProxy } from "../harness/tcp-proxy.ts";
import { everyCaller } from "./every-caller.ts";

const seed = 24;
const orders = campaignSize("run-storm");
const atOnce = 64;
const bytesMax = 16 * 1024 * 1024;

const random = seededRandom(seed);
const oneOf = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)] as Item;

/** What each team holds, by what the budget was told. */
const held = new Map<string, number>();
let negatives = 0;
let heldMost = 0;

let keyrun: Keyrun;
let proxy: TcpProxy;
const served: ServedApp[] = [];
const appIds = ["echo"];

beforeAll(async () => {
  const { take, give } = ByteBudget.prototype;
  const count = (teamId: string, bytes: number) => {
    const now = (held.get(teamId) ?? 0) + bytes;
    held.set(teamId, now);
    if (now < 0) negatives += 1;
    heldMost = Math.max(heldMost, sumOf(held));
  };
  vi.spyOn(ByteBudget.prototype, "take").mockImplementation(function (this: ByteBudget, teamId, bytes) {
    const isTaken = take.call(this, teamId, bytes);
    if (isTaken) count(teamId, bytes);
    return isTaken;
  });
  vi.spyOn(ByteBudget.prototype, "give").mockImplementation(function (this: ByteBudget, teamId, bytes) {
    count(teamId, -bytes);
    give.call(this, teamId, bytes);
  });
  keyrun = await startKeyrun({
    settings: { KEYRUN_RUN_BYTES_MAX: String(bytesMax), KEYRUN_PLAN_LIMITS: "enterprise=100000" },
  });
  const { host, port } = keyrun.app.publicAddress;
  proxy = await openTcpProxy({ host, port });
  served.push(await httpApp(), await grpcApp(), await grpcAppWithRunAlone(), await resettingApp());
  for (const [at, { backend }] of served.entries()) {
    const backendOf = { kind: kindOf(backend) };
    // Some of its runs and streams are not over by then.
    const timeout = { seconds: 0n, nanos: 300_000_000 };
    const id = `app-${at}`;
    await keyrun.apps.createApp({ app: { id, backend: backendOf, timeout, streamTimeout: timeout } });
    appIds.push(id);
  }
});

afterAll(async () => {
  await proxy.close();
  await keyrun.close();
  for (const app of served) await app[Symbol.asyncDispose]();
  vi.restoreAllMocks();
});

test("whatever ends runs and streams, each byte that was counted is given back once", async () => {
  const teams = await Promise.all([1, 2, 3].map(() => keyrun.newTeam(Plan.ENTERPRISE)));
  const keys: IssuedKey[] = [];
  for (const team of teams) keys.push(await keyrun.newKey(team), await keyrun.newKey(team));
  const ends = new Map<string, number>();
  const note = (end: string) => {
    // The other ends are the words of clients whose connection was cut.
    const known = /^[A-Z_]+$|^ended$|^left$/.test(end) ? end : "cut off";
    ends.set(known, (ends.get(known) ?? 0) + 1);
  };

  const straight = openCallers(keyrun.publicUrl);
  const cut = openCallers(`http://127.0.0.1:${proxy.port}`);
  let isOver = false;
  const cutting = (async () => {
    while (!isOver) {
      await pause(50 + 200 * random());
      proxy.mend();
    }
  })();
  const revoking = (async () => {
    while (!isOver) {
      await pause(100 + 200 * random());
      const at = Math.floor(random() * keys.length);
      const { teamId, id } = keys[at] as IssuedKey;
      keys[at] = await keyrun.newKey(teamId);
      await keyrun.keys.revokeKey({ teamId, keyId: id });
    }
  })();
  let left = orders;
  const sendAll = async () => {
    while (left > 0) {
      left -= 1;
      await oneOf(random() < 0.7 ? straight : cut).send({ key: oneOf(keys).value, note });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, sendAll));
  isOver = true;
  await Promise.all([cutting, revoking]);
  for (const caller of [...straight, ...cut]) caller.close();

  await expect.poll(() => sumOf(held)).toBe(0);
  expect(await readMetric(keyrun.internalUrl, keyrun.serviceToken, "keyrun_run_bytes")).toBe(0);
  expect([...held.values()]).toEqual(Array.from(held, () => 0));
  expect(negatives).toBe(0);
  figure("bytes held at most", heldMost);
  figures("ends", Object.fromEntries(ends));
  expect(heldMost).toBeLessThanOrEqual(bytesMax);
  const wanted = ["OVERLOADED", "APP_FAILED", "APP_TIMEOUT", "cut off", "ended", "left"];
  expect(wanted.filter((end) => !ends.has(end))).toEqual([]);
});

interface StormCaller {
  send(order: { key: string; note: (end: string) => void }): Promise<void>;
  close(): void;
}

/** Every way to ask for a run or a stream, each on connections of its own. */
function openCallers(url: string): StormCaller[] {
  return [
    ...Object.values(everyCaller).map((make) => runsBy(() => make(url))),
    ...Object.values(restStreamCallers).map((make) => streamsBy(() => make(url), { isSlow: true })),
    // Connect's clients reject what nobody waits for if a stream ends between two reads.
    ...Object.values(connectStreamCallers).map((make) => streamsBy(() => make(url), { isSlow: false })),
    leftRuns(url),
  ];
}

/** A caller whose connection was cut is replaced by a new one. */
function runsBy(make: () => ReturnType<CallerMaker>): StormCaller {
  let caller = make();
  return {
    close: () => caller.close(),
    async send({ key, note }) {
      const own = caller;
      try {
        const headers = random() < 0.3 ? { "idempotency-key": `key-${Math.floor(40 * random())}` } : {};
        const outcome = await own.run({ ...orderOf(key), headers });
        note(outcome.kind === "ok" ? "ended" : reasonOf(outcome.details, outcome.message));
      } catch {
        note("cut off");
        if (caller !== own) return;
        own.close();
        caller = make();
      }
    },
  };
}

/**
 * Reads each stream to its end, or leaves it at a random moment. If it is slow, it also stops to
 * read for a while.
 */
function streamsBy(
  make: () => ReturnType<StreamCallerMaker>,
  { isSlow }: { readonly isSlow: boolean },
): StormCaller {
  let caller = make();
  return {
    close: () => caller.close(),
    async send({ key, note }) {
      const own = caller;
      const timeoutMs = random() < 0.2 ? 1 + Math.floor(300 * random()) : undefined;
      const stream = own.open({ ...orderOf(key), ...(timeoutMs !== undefined && { timeoutMs }) });
      const leavesAfter = random() < 0.5 ? Math.floor(4 * random()) : Number.POSITIVE_INFINITY;
      if (random() < 0.1) void pause(200 * random()).then(() => stream.leave());
      for (let read = 0; read <= leavesAfter; read += 1) {
        if (isSlow && random() < 0.2) await pause(100 * random());
        const event = await stream.next();
        if (event.kind === "started" || event.kind === "delta") continue;
        note(event.kind === "end" ? "ended" : event.kind === "refused" ? event.reason : "cut off");
        if (event.kind !== "cut off" || caller !== own) return;
        own.close();
        caller = make();
        return;
      }
      note("left");
      stream.leave();
      await readAll(stream);
    },
  };
}

/** Runs over HTTP/1.1 whose caller leaves at a random moment, also in its upload. */
function leftRuns(url: string): StormCaller {
  return {
    close: () => {},
    async send({ key, note }) {
      const { appId, text, authorization } = orderOf(key);
      const headers = { authorization, "content-type": "application/json" };
      const body = Buffer.from(JSON.stringify({ text }));
      const half = body.length / 2;
      const parts = new ReadableStream({
        async start(sink) {
          sink.enqueue(body.subarray(0, half));
          await pause(50 * random());
          sink.enqueue(body.subarray(half));
          sink.close();
        },
      });
      const signal = AbortSignal.timeout(Math.floor(150 * random()));
      const init = { method: "POST", headers, body: parts, duplex: "half", signal } as RequestInit;
      await fetch(`${url}/api/apps/${appId}/run`, init)
        .then((answer) => answer.text())
        .catch(() => note("left"));
    },
  };
}

function orderOf(key: string) {
  const size = oneOf([0, 20_000, 300_000, 900_000, 900_000]);
  const text = `${oneOf(behaviours)} ${oneOf(["x", "ä", "☀"]).repeat(size / 3)}`;
  return { appId: oneOf(appIds), text, authorization: `Bearer ${key}` };
}

/** What an app does, by the first word of its text. */
const behaviours = ["answers", "answers", "bit-by-bit", "breaks", "waits", "too-much", "half"] as const;

const httpForms = [
  ["application/json", (text: string) => JSON.stringify({ text })],
  ["application/x-ndjson", (text: string) => `${JSON.stringify({ text })}\n`],
  ["text/event-stream", (text: string) => `data: ${JSON.stringify({ text })}\n\n`],
] as const;

function httpApp() {
  return serveHttp(async (request, response) => {
    const { text } = await bodyOf(request).then(JSON.parse, () => ({ text: "breaks" }));
    const [type, messageOf] = oneOf(httpForms);
    response.setHeader("content-type", type);
    await answerAs(text.split(" ")[0], messageOf(text), response);
  });
}

async function answerAs(behaviour: string, message: string, response: ServerResponse): Promise<void> {
  if (behaviour === "answers") return void response.end(message);
  if (behaviour === "too-much") return void response.end(message.padEnd(1_200_000, "x"));
  const part = Math.ceil(message.length / 5);
  for (let at = 0; at < message.length && !response.destroyed; at += part) {
    if (behaviour === "waits" || (behaviour !== "bit-by-bit" && at > 2 * part)) break;
    response.write(message.slice(at, at + part));
    await pause(20 * random());
  }
  if (behaviour === "bit-by-bit") response.end();
  if (behaviour === "breaks") response.destroy();
}

const grpcScript: Script = async (talk) => {
  const [behaviour] = talk.text.split(" ");
  if (behaviour === "breaks") return talk.breakOff();
  if (behaviour === "waits") return;
  talk.say(behaviour === "too-much" ? "x".repeat(1_200_000) : talk.text);
  if (behaviour === "half") return;
  if (behaviour === "bit-by-bit") {
    for (let at = 0; at < 5; at += 1) {
      await pause(20 * random());
      talk.say("more ");
    }
  }
  talk.end();
};

const grpcApp = () => serveGrpcApp({ streamRun: grpcScript });
const grpcAppWithRunAlone = () => serveGrpcApp({ run: grpcScript });

/** Resets each connection, now and then before it has read the call. */
async function resettingApp() {
  const server = await serveTcp((socket) => {
    setTimeout(() => socket.resetAndDestroy(), 30 * random());
  });
  const backend = { kind: "http" as const, url: `http://127.0.0.1:${server.port}/`, headers: [] };
  return { backend, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

function reasonOf(details: readonly unknown[], message: string): string {
  const [info] = details as readonly { reason?: string }[];
  return info?.reason ?? message;
}

function sumOf(counts: ReadonlyMap<string, number>): number {
  let sum = 0;
  for (const count of counts.values()) sum += count;
  return sum;
}
