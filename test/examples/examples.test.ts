import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";
import type { BackendRecord } from "#src/apps/app-store.ts";
import { appOn, openAppRunner, refusalOf, runOf } from "../harness/app-backends.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { describeWith, programsMissing } from "../harness/needs.ts";

const kinds = [
  ["http", (place) => ({ kind: "http", url: place, headers: [] })],
  ["grpc", (place) => ({ kind: "grpc", target: place, tls: false })],
] satisfies [string, (place: string) => BackendRecord][];

test.each(kinds)(
  "the %s example runs as its comment says, and answers a run in capitals",
  async (kind, backendAt) => {
    await using example = await start(process.execPath, `examples/${kind}-app.ts`);
    await using runner = openAppRunner();
    const app = appOn(backendAt(example.place));
    expect(await runner.run(runOf(app, { text: "hello ☀" }))).toBe("HELLO ☀");
    expect(await runner.run(runOf(app, { text: "" }))).toBe("");
  },
);

test("the http example refuses another path, and what it can't read is a failed run", async () => {
  await using example = await start(process.execPath, "examples/http-app.ts");
  await using runner = openAppRunner();
  const elsewhere = appOn({ kind: "http", url: new URL("/", example.place).href, headers: [] });
  expect(await refusalOf(runner.run(runOf(elsewhere)))).toMatchObject({ reason: "APP_FAILED" });
  expect((await fetch(example.place, { method: "POST", body: "{" })).status).toBe(500);
});

const streaming = [
  ["Node", [process.execPath, "examples/streaming-app.ts"]],
  ["Python", ["python3", "examples/streaming_app.py"]],
] satisfies [string, [string, string]][];

for (const [language, command] of streaming) {
  const describeHere = language === "Node" ? describe : describeWith(programsMissing("python3"));
  describeHere(`the example in ${language} of an app that streams`, () => {
    test("answers a stream in capitals, word by word, and a run with the whole text", async () => {
      await using example = await start(...command);
      const keyrun = await startKeyrun();
      onTestFinished(() => keyrun.close());
      const backend = { kind: { case: "http", value: { url: example.place } } } as const;
      await keyrun.apps.createApp({ app: { id: "speak", backend } });
      const { value } = await keyrun.keys.createKey({ teamId: "demo" });
      const call = (method: "run" | "stream") =>
        fetch(`${keyrun.publicUrl}/api/apps/speak/${method}`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${value}`,
            "content-type": "application/json",
            accept: "application/x-ndjson",
          },
          body: JSON.stringify({ text: "hello, how are ☀ you?" }),
        });
      const lines = (await (await call("stream")).text()).trimEnd().split("\n");
      const [started, ...messages] = lines.map((line) => JSON.parse(line));
      expect(started).toMatchObject({ started: { appId: "speak" } });
      expect(messages.pop()).toEqual({ end: {} });
      expect(messages.map(({ delta }) => delta.text).join("")).toBe("HELLO, HOW ARE ☀ YOU?");
      expect(await (await call("run")).json()).toMatchObject({ text: "HELLO, HOW ARE ☀ YOU?" });
    });

    test("refuses another path and what it can't read, and goes on when a caller leaves", async () => {
      await using example = await start(...command);
      const post = (body: string, path = "/run", signal?: AbortSignal) =>
        fetch(new URL(path, example.place), { method: "POST", body, ...(signal && { signal }) });
      expect((await post("{}", "/")).status).toBe(404);
      expect((await post("{")).status).toBeGreaterThanOrEqual(400);
      const leave = new AbortController();
      const left = await post('{"text":"one two three"}', "/run", leave.signal);
      await left.body?.getReader().read();
      leave.abort();
      const events = (await (await post('{"text":"still here"}')).text()).split("\n\n");
      expect(events.map((event) => event && JSON.parse(event.slice("data: ".length)).text)).toEqual([
        ...["STILL ", "HERE", ""],
      ]);
    });
  });
}

/** The example as a process of its own, and the place that it says it listens on. */
async function start(program: string, file: string) {
  const child = spawn(program, [file], {
    env: { ...process.env, PORT: "0", NODE_OPTIONS: "" },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = once(child, "exit");
  const line = Promise.race([
    once(createInterface(child.stdout), "line"),
    exited.then(([code]) => Promise.reject(new Error(`${file} ended with ${code} before it was ready.`))),
  ]);
  const [words] = (await line) as [string];
  return {
    place: words.slice(words.lastIndexOf(" ") + 1),
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
    },
  };
}
