import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { joinFleet } from "#src/fleet/fleet.ts";
import { fleetTimes } from "#src/fleet/lease.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { type IssuedKey, type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { memoryControlStore } from "../harness/memory-control-store.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, readAll, type StreamCaller, textIn } from "../harness/stream-callers.ts";
import { countTurns } from "../harness/stream-writes.ts";

/**
 * What one stream may be given in one turn: a part, and a message that did not fit into it. All
 * streams of words together are given no more: as many as have time are a thousand.
 */
const turnBytesMax = 32 * 1024;

/**
 * The time that streams share is counted here: each look at the clock is a tenth of a millisecond.
 * So it is the same number of words that fits into a turn, however fast or busy the machine is.
 */
vi.mock("#src/limit/stream-turns.ts", async (load) => {
  const real = await load<typeof import("#src/limit/stream-turns.ts")>();
  let nowMs = 0;
  const monotonicMs = () => {
    nowMs += 0.1;
    return nowMs;
  };
  const streamTurns = new real.StreamTurns({ monotonicMs, unixMs: () => 0 }, setImmediate);
  return { ...real, streamTurns };
});

let keyrun: Keyrun;
let chatty: Awaited<ReturnType<typeof startChattyApp>>;
let other: IssuedKey;

beforeAll(async () => {
  chatty = await startChattyApp();
  keyrun = await startKeyrun();
  await keyrun.apps.createApp({ app: { id: "chatty", backend: chatty.backend } });
  other = await newKey();
});

afterAll(async () => {
  await keyrun.close();
  await chatty.close();
});

const newKey = async () => keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE));

/** An app that says as many words as its connection takes, and never ends. */
async function startChattyApp() {
  const words = Buffer.from('{"text":"t"}\n'.repeat(5_000));
  const server = createServer((asked, answer) => {
    asked.resume();
    answer.writeHead(200, { "content-type": "application/x-ndjson" });
    const say = () => {
      while (!answer.destroyed && answer.write(words));
    };
    answer.on("drain", say).on("error", () => {});
    say();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return {
    backend: { kind: { case: "http", value: { url } } } as const,
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

async function run(key: IssuedKey): Promise<void> {
  const answer = await fetch(`${keyrun.publicUrl}/api/apps/echo/run`, {
    method: "POST",
    headers: { authorization: `Bearer ${key.value}`, "content-type": "application/json" },
    body: '{"text":"hello"}',
  });
  expect([answer.status, await answer.json()]).toMatchObject([200, { text: "hello" }]);
}

async function isLive(): Promise<void> {
  const { status } = await fetch(`${keyrun.publicUrl}/healthz`);
  expect(status).toBe(200);
}

/** An instance of a fleet whose store answers a heartbeat in the next turn. */
async function joinOne() {
  const clock = createManualClock();
  const control = memoryControlStore();
  const fleet = await joinFleet({
    control: {
      ...control,
      async beat(id, step) {
        await nextTurn();
        return control.beat(id, step);
      },
    },
    ...{ clock, newId: () => "one", facts: instanceFactsOf(), times: fleetTimes },
    timers: { after: () => ({ cancel() {} }) },
    ...{ apply() {}, clear() {}, nudge() {} },
  });
  onTestFinished(() => fleet.leave());
  return {
    /** Resolves once a heartbeat has renewed the lease, of which a millisecond was left. */
    async renew(): Promise<void> {
      clock.advance(fleetTimes.leaseMs - 1);
      expect([fleet.mayAdmit(), fleet.leftMs()]).toEqual([true, 1]);
      fleet.nudged();
      for (let waited = 0; fleet.leftMs() === 1; waited++) {
        if (waited > 1_000) throw new Error("the lease is not renewed");
        await nextTurn();
      }
    },
  };
}

async function largest(work: () => Promise<number>, times = 10): Promise<number> {
  const all: number[] = [];
  for (let n = 0; n < times; n++) all.push(await work());
  return Math.max(...all);
}

const callers = { ...restStreamCallers, ...connectStreamCallers };

describe.each(Object.entries(callers))("%s", (_, make) => {
  let caller: StreamCaller;
  let key: IssuedKey;
  beforeAll(async () => {
    caller = make(keyrun.publicUrl);
    key = await newKey();
  });
  afterAll(() => caller.close());

  test("many words are passed on together, but over many turns", async () => {
    const words = 20_000;
    const text = "a ".repeat(words);
    using turns = countTurns({ bytesMax: 4 * turnBytesMax });
    const { events, end } = await readAll(
      caller.open({ appId: "echo", text, authorization: `Bearer ${key.value}` }),
    );
    expect([end, textIn(events) === text]).toEqual([{ kind: "end" }, true]);
    const [written = []] = turns.take();
    expect(events.length).toBeLessThan(words / 100);
    expect(written.length).toBeGreaterThan(words / 2_000);
    expect(Math.max(...written.map(({ bytes }) => bytes))).toBeLessThanOrEqual(turnBytesMax);
    expect(written.reduce((all, { writes }) => all + writes, 0)).toBeLessThan(words / 100);
  });

  test("a key that is revoked during its own stream of words ends it at once", async () => {
    const own = await newKey();
    const words = 400_000;
    const stream = caller.open({
      appId: "echo",
      text: "a ".repeat(words),
      authorization: `Bearer ${own.value}`,
    });
    expect(await stream.next()).toMatchObject({ kind: "started" });
    await keyrun.keys.revokeKey({ teamId: own.teamId, keyId: own.id });
    const { events, end } = await readAll(stream);
    expect(end).toMatchObject({ kind: "refused", reason: "REVOKED_API_KEY" });
    expect(events.length).toBeLessThan(words / 2);
  });
});

describe.each(["REST with events over HTTP/1.1", "Connect over HTTP/1.1", "gRPC"])("%s:", (name) => {
  let caller: StreamCaller;
  let key: IssuedKey;
  beforeAll(async () => {
    caller = callers[name]!(keyrun.publicUrl);
    key = await newKey();
  });
  afterAll(() => caller.close());

  async function revokeAnother(): Promise<void> {
    const { teamId, id: keyId } = await newKey();
    await keyrun.keys.revokeKey({ teamId, keyId });
  }

  test.each([1, 4, 64])("nobody waits for %i streams of a chatty app", async (count) => {
    using turns = countTurns({ bytesMax: turnBytesMax });
    const { renew } = await joinOne();
    await run(other);
    await isLive();
    const runAlone = await largest(() => turns.of(() => run(other)));
    const liveAlone = await largest(() => turns.of(isLive));
    const revokeAlone = await turns.of(revokeAnother);
    const renewAlone = await largest(() => turns.of(renew));
    const streams = Array.from({ length: count }, () =>
      caller.open({ appId: "chatty", text: "", authorization: `Bearer ${key.value}` }),
    );
    onTestFinished(() => {
      for (const stream of streams) stream.leave();
    });
    await Promise.all(streams.map((stream) => stream.next()));
    for (const stream of streams) void readAll(stream);
    turns.take();
    expect(await largest(() => turns.of(() => run(other)))).toBeLessThanOrEqual(2 * runAlone);
    expect(await largest(() => turns.of(isLive))).toBeLessThanOrEqual(2 * liveAlone);
    const revoke = await turns.of(revokeAnother);
    expect(revoke).toBeLessThanOrEqual(2 * revokeAlone);
    expect(await largest(() => turns.of(renew))).toBeLessThanOrEqual(renewAlone);
    expect(turns.mostBytes()).toBeLessThanOrEqual(turnBytesMax);
    expect(turns.take()).toHaveLength(count);
  });
});
