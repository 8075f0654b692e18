import { describe, expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, readAll, textIn } from "../harness/stream-callers.ts";
import { type AppKind, appKinds, kindOf } from "../harness/streamed-apps.ts";

const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_LIMITS: "free=100000" } }));
const apiKey = (await keyrun.keys.createKey({ teamId: "demo" })).value;

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

test.each(kinds)("%s is streamed, and run as a whole, by the same caller", async (_, kind: AppKind, id) => {
  await using server = await kind.serve((talk) => {
    for (const text of ["one ", "two ☀"]) talk.say(text);
    talk.end();
  });
  await keyrun.apps.createApp({ app: { id, backend: { kind: kindOf(server.backend) } } });
  const streamed = (await ask(id, "stream"))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const started = { runId: expect.stringMatching(/^run_/), appId: id };
  expect([streamed.at(0), streamed.at(-1)]).toEqual([{ started }, { end: {} }]);
  expect(streamed.map(({ delta }) => delta?.text ?? "").join("")).toBe("one two ☀");
  expect(JSON.parse(await ask(id, "run"))).toEqual({ ...started, text: "one two ☀" });
});

/** They send text in JSON, which can hold half of a surrogate pair. */
const ofHttp = kinds.filter(([name]) => name.startsWith("an HTTP app"));
const callers = Object.entries({ ...restStreamCallers, ...connectStreamCallers });

describe.each(ofHttp)("%s that cuts its text within an emoji", (_, kind: AppKind, index) => {
  const id = `half-${index}`;

  test.each(callers)(
    "loses none of it to a caller by %s, and fails where a half stays alone",
    async (_by, make) => {
      const text = "x😀y ☀ 😁";
      await using server = await kind.serve((talk) => {
        // Sent together, and so read together.
        for (const unit of talk.text.split("")) talk.say(unit);
        if (talk.text === "half") talk.say("\ud83d");
        talk.end();
      });
      const backend = { kind: kindOf(server.backend) };
      await keyrun.apps.createApp({ app: { id, backend } });
      const caller = make(keyrun.publicUrl);
      try {
        const ask = (text: string) =>
          readAll(caller.open({ appId: id, authorization: `Bearer ${apiKey}`, text }));
        const { events, end } = await ask(text);
        expect([textIn(events), end]).toEqual([text, { kind: "end" }]);
        const broken = await ask("half");
        expect(textIn(broken.events)).toBe("half");
        expect(broken.end).toMatchObject({ kind: "refused", reason: "APP_FAILED" });
      } finally {
        caller.close();
        await keyrun.apps.deleteApp({ appId: id });
      }
    },
  );
});

test.each(callers)(
  "nothing on the way to a caller by %s may compress or collect a stream",
  async (_, make) => {
    const caller = make(keyrun.publicUrl);
    try {
      const stream = caller.open({ appId: "echo", authorization: `Bearer ${apiKey}`, text: "hello" });
      await readAll(stream);
      expect(stream.headers.get("cache-control")).toBe("no-store, no-transform");
      expect(stream.headers.get("x-accel-buffering")).toBe("no");
    } finally {
      caller.close();
    }
  },
);

test("echo is streamed word by word, and run as a whole", async () => {
  const deltas = (await ask("echo", "stream")).trimEnd().split("\n").slice(1, -1);
  expect(deltas.map((line) => JSON.parse(line))).toEqual([{ delta: { text: "hello" } }]);
  expect(JSON.parse(await ask("echo", "run"))).toMatchObject({ text: "hello" });
});
