import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { fromBinary, toJson } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { StreamAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { repository } from "../harness/keyrun-process.ts";
import { python, pythonEnv, pythonHas } from "../harness/python.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

let texts = 0;

const has = {
  curl: works("curl", ["--version"]),
  grpcurl: works("grpcurl", ["--version"]),
  grpcio: pythonHas("grpc"),
  httpx: pythonHas("httpx", "httpx_sse"),
  requests: pythonHas("requests"),
};
const lacking = Object.entries(has).flatMap(([name, found]) => (found ? [] : [name]));
if (lacking.length > 0) {
  process.stderr.write(`Streams by ${lacking.join(", ")} are left out: \`bash .ci/run\` installs them.\n`);
}

const app = closedAtEnd(await startTalkingApp());
const keyrun = closedAtEnd(await startKeyrun());
await keyrun.apps.createApp({ app: { id: "talk", backend: app.backend } });
const key = (await keyrun.newKey(await keyrun.newTeam())).value;

test("every client is installed where every test is required", () => {
  expect(process.env.KEYRUN_TEST_REQUIRE_ALL === "1" ? lacking : []).toEqual([]);
});

/** With the line ends of Unicode, and a character that has the byte of one of them in Latin-1. */
const lineEnds = "first\u2028second\u2029third\u0085done \u2705";
const pieces = ["one ", "zw\u00f6lf\n", "\u{1f5dd}", lineEnds];
const output = { delta: { text: pieces.join("") } };
const started = { started: { runId: expect.stringMatching(/^run_/), appId: "talk" } };
test.runIf(has.curl)("`curl -N` prints each event before the next one exists", async () => {
  const text = newText();
  const child = execFile("curl", ["-sN", ...curlArgs(text)]);
  let heard = "";
  const until = (part: string) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (!heard.includes(part)) return;
        child.stdout?.off("data", look);
        resolve();
      };
      child.stdout?.on("data", look);
      look();
    });
  child.stdout?.on("data", (chunk) => {
    heard += chunk;
  });
  const talk = await app.talk(text);
  talk.begin();
  await until('data: {"started":');
  for (const piece of pieces) {
    talk.say(piece);
    const json = JSON.stringify(piece)
      .replace("\u2028", "\\u2028")
      .replace("\u2029", "\\u2029")
      .replace("\u0085", "\\u0085");
    await until(`data: {"delta":{"text":${json}}}\n\n`);
  }
  talk.end();
  await until("event: end\ndata: {}\n\n");
});

test.runIf(has.curl)("`curl` reads lines of JSON, of which the last says how the stream ended", async () => {
  const text = newText();
  const lines = async (end: "end" | "breakOff") => {
    const answer = told("curl", ["-sN", "-H", "Accept: application/x-ndjson", ...curlArgs(`${text} ${end}`)]);
    await speak(`${text} ${end}`, end);
    return (await answer)
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  };
  expect(joined(await lines("end"))).toEqual([started, output, { end: {} }]);
  const broken = await lines("breakOff");
  expect(joined(broken.slice(0, -1))).toEqual([started, output]);
  expect(broken.at(-1)).toMatchObject({ error: { code: "app_failed" } });
});

test.runIf(has.httpx)("httpx-sse and httpx read the same stream", async () => {
  const events = (await byPython("sse")) as [type: string, data: unknown][];
  expect(events.pop()).toEqual(["end", {}]);
  expect(new Set(events.map(([type]) => type))).toEqual(new Set(["message"]));
  expect(joined(events.map(([, data]) => data))).toEqual([started, output]);
  expect(joined(await byPython("lines"))).toEqual([started, output, { end: {} }]);
  expect(joined(await byPython("lines of events"))).toEqual([started, output, {}]);
});

test.runIf(has.requests)("requests of Python reads the same stream by lines, also of events", async () => {
  expect(joined(await byPython("requests"))).toEqual([started, output, { end: {} }]);
  expect(joined(await byPython("requests of events"))).toEqual([started, output, {}]);
});

test("Node's readline reads the same stream, of events and of lines", async () => {
  const read = async (accept: string) => {
    const text = newText();
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", accept };
    const asked = { method: "POST", headers, body: JSON.stringify({ text }) };
    const answer = fetch(`${keyrun.publicUrl}/api/apps/talk/stream`, asked);
    await speak(text);
    const input = Readable.fromWeb((await answer).body as ReadableStream);
    const messages: unknown[] = [];
    for await (const line of createInterface({ input })) {
      const json = line.replace(/^(data: |event: .*)/, "");
      if (json !== "") messages.push(JSON.parse(json));
    }
    return messages;
  };
  expect(joined(await read("text/event-stream"))).toEqual([started, output, {}]);
  expect(joined(await read("application/x-ndjson"))).toEqual([started, output, { end: {} }]);
});

test.runIf(has.grpcio)("python3-grpcio reads the same messages and a status", async () => {
  const { messages, code } = (await askPython("grpc")) as { messages: string[]; code: string };
  const read = messages.map((hex) => {
    return toJson(StreamAppResponseSchema, fromBinary(StreamAppResponseSchema, Buffer.from(hex, "hex")));
  });
  expect([joined(read), code]).toEqual([[started, output], "OK"]);
});

test.runIf(has.grpcurl)("grpcurl reads the same messages, by reflection", async () => {
  const text = newText();
  const target = keyrun.internalUrl.replace("http://", "");
  const data = JSON.stringify({ appId: "talk", text });
  const answer = told("grpcurl", [
    ...["-plaintext", "-H", `authorization: Bearer ${key}`, "-d", data],
    ...[target, "keyrun.v1.RunService/StreamApp"],
  ]);
  await speak(text);
  expect(joined(objectsIn(await answer))).toEqual([started, output]);
});

test.runIf(has.grpcurl)("grpcurl shows the details of a refusal by their names, by reflection", async () => {
  const target = keyrun.internalUrl.replace("http://", "");
  const answer = told("grpcurl", [
    ...["-plaintext", "-H", `authorization: Bearer ${key}`, "-d", '{"appId":"none","text":""}'],
    ...[target, "keyrun.v1.RunService/RunApp"],
  ]);
  await expect(answer).rejects.toThrow(/google\.rpc\.ErrorInfo.*"reason": ?"APP_NOT_FOUND"/s);
});

test.each(["grpc", "grpcweb", "connect"])("buf curl reads the same messages by %s", async (protocol) => {
  const text = newText();
  const buf = join(repository, "node_modules/.bin/buf");
  const answer = told(process.execPath, [
    ...[buf, "curl", "--protocol", protocol, "--http2-prior-knowledge"],
    ...["--header", `authorization: Bearer ${key}`, "--data", JSON.stringify({ appId: "talk", text })],
    `${keyrun.internalUrl}/keyrun.v1.RunService/StreamApp`,
  ]);
  await speak(text);
  expect(joined(objectsIn(await answer))).toEqual([started, output]);
});

/** A text that no other run has. */
function newText(): string {
  texts += 1;
  return `interop ${texts}`;
}

/** Lets the app say all pieces, and then end. */
async function speak(text: string, end: "end" | "breakOff" = "end"): Promise<void> {
  const talk = await app.talk(text);
  for (const piece of pieces) talk.say(piece);
  talk[end]();
}

function curlArgs(text: string): string[] {
  const headers = [`Authorization: Bearer ${key}`, "Content-Type: application/json"];
  const url = `${keyrun.publicUrl}/api/apps/talk/stream`;
  return [...headers.flatMap((header) => ["-H", header]), "-d", JSON.stringify({ text }), url];
}

async function byPython(client: string): Promise<unknown[]> {
  return (await askPython(client)) as unknown[];
}

async function askPython(client: string): Promise<unknown> {
  const text = newText();
  const url = `${keyrun.publicUrl}/api/apps/talk/stream`;
  const target = keyrun.internalUrl.replace("http://", "");
  const answer = told(python, [join(import.meta.dirname, "streams.py")], { url, target, key, text, client });
  await speak(text);
  return JSON.parse(await answer);
}

function told(program: string, args: readonly string[], input?: object): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(program, args, { cwd: repository, env: pythonEnv }, (error, stdout, stderr) => {
      if (error) reject(new Error(stderr, { cause: error }));
      else resolve(stdout);
    });
    child.stdin?.end(input && JSON.stringify(input));
  });
}

/** The messages, with deltas that follow one another as one: where they are cut is no promise. */
function joined(messages: readonly unknown[]): unknown[] {
  const whole: unknown[] = [];
  let last: { text: string } | undefined;
  for (const message of messages) {
    const { delta } = message as { delta?: { text: string } };
    if (delta !== undefined && last !== undefined) last.text += delta.text;
    else whole.push(message);
    last = delta === undefined ? undefined : (last ?? delta);
  }
  return whole;
}

/** The JSON objects that follow one another in a text, each from a "{" at the begin of a line. */
function objectsIn(text: string): unknown[] {
  return text
    .split(/^(?=\{)/m)
    .filter((part) => part.trim() !== "")
    .map((part) => JSON.parse(part));
}

function works(program: string, args: readonly string[]): boolean {
  try {
    execFileSync(program, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
