import { afterAll, beforeAll, expect, test } from "vitest";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { type AppKind, appKinds, kindOf } from "../harness/streamed-apps.ts";

let keyrun: Keyrun;
let apiKey: string;

beforeAll(async () => {
  keyrun = await startKeyrun();
  apiKey = (await keyrun.keys.createKey({ teamId: "demo" })).value;
});

afterAll(() => keyrun.close());

async function ask(appId: string, verb: "run" | "stream"): Promise<string> {
  const answer = await fetch(`${keyrun.publicUrl}/api/apps/${appId}/${verb}`, {
    method: "POST",
    headers: {
      accept: verb === "stream" ? "application/x-ndjson" : "application/json",
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/json",
    },
    body: '{"text":"hello"}',
  });
  return await answer.text();
}

const kinds = Object.entries(appKinds).map(([name, kind], index) => [name, kind, `app-${index}`] as const);

test.each(kinds)(
  "%s is streamed in its pieces, and run as a whole, by the same caller",
  async (_, kind: AppKind, id) => {
    await using server = await kind.serve((talk) => {
      for (const text of ["one ", "two ☀"]) talk.say(text);
      talk.end();
    });
    await keyrun.apps.createApp({ app: { id, backend: { kind: kindOf(server.backend) } } });
    const streamed = (await ask(id, "stream")).trimEnd().split("\n");
    const deltas = (kind.isWhole ? ["one two ☀"] : ["one ", "two ☀"]).map((text) => ({ delta: { text } }));
    const started = { runId: expect.stringMatching(/^run_/), appId: id };
    expect(streamed.map((line) => JSON.parse(line))).toEqual([{ started }, ...deltas, { end: {} }]);
    expect(JSON.parse(await ask(id, "run"))).toEqual({ ...started, text: "one two ☀" });
  },
);

test("echo is streamed word by word, and run as a whole", async () => {
  const deltas = (await ask("echo", "stream")).trimEnd().split("\n").slice(1, -1);
  expect(deltas.map((line) => JSON.parse(line))).toEqual([{ delta: { text: "hello" } }]);
  expect(JSON.parse(await ask("echo", "run"))).toMatchObject({ text: "hello" });
});
