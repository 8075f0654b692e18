import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { type IssuedKey, type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, readAll, type StreamCaller, textIn } from "../harness/stream-callers.ts";

let keyrun: Keyrun;
let chatty: Awaited<ReturnType<typeof startChattyApp>>;

beforeAll(async () => {
  chatty = await startChattyApp();
  keyrun = await startKeyrun();
  await keyrun.apps.createApp({ app: { id: "chatty", backend: chatty.backend } });
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

describe.each(Object.entries({ ...restStreamCallers, ...connectStreamCallers }))("%s", (_, make) => {
  let caller: StreamCaller;
  let key: IssuedKey;
  beforeAll(async () => {
    caller = make(keyrun.publicUrl);
    key = await newKey();
  });
  afterAll(() => caller.close());

  const open = (appId: string, text: string, { value } = key) =>
    caller.open({ appId, text, authorization: `Bearer ${value}` });

  test("many words are passed on together", async () => {
    const words = 20_000;
    const text = "a ".repeat(words);
    const { events, end } = await readAll(open("echo", text));
    expect([end, textIn(events) === text]).toEqual([{ kind: "end" }, true]);
    expect(events.length).toBeLessThan(words / 100);
  });

  test("a key that is revoked during its own stream of words ends it", async () => {
    const own = await newKey();
    const stream = open("chatty", "", own);
    expect(await stream.next()).toMatchObject({ kind: "started" });
    const read = readAll(stream);
    await keyrun.keys.revokeKey({ teamId: own.teamId, keyId: own.id });
    expect((await read).end).toMatchObject({ kind: "refused", reason: "REVOKED_API_KEY" });
  });

  test("runs, probes and revocations are answered beside streams that never pause", async () => {
    const other = await newKey();
    const streams = Array.from({ length: 8 }, () => open("chatty", ""));
    onTestFinished(() => {
      for (const stream of streams) stream.leave();
    });
    await Promise.all(streams.map((stream) => stream.next()));
    for (const stream of streams) void readAll(stream);
    for (let round = 0; round < 3; round += 1) await run(other);
    expect((await fetch(`${keyrun.publicUrl}/healthz`)).status).toBe(200);
    await keyrun.keys.revokeKey({ teamId: other.teamId, keyId: other.id });
  });
});
