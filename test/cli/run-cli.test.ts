import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { serveStreamedWords } from "./streaming-app.ts";

const script = `import { runCli } from "#src/cli/cli.ts";
process.exitCode = await runCli(process.argv.slice(1), { serve: () => Promise.resolve(0) });`;
let keyrun: Keyrun;

beforeEach(async () => {
  keyrun = await startKeyrun();
});

afterEach(() => keyrun.close());

function start(...argv: string[]) {
  return startWith({}, ...argv);
}

function startWith(env: Record<string, string>, ...argv: string[]) {
  return spawn(process.execPath, ["--input-type=module", "-e", script, "--", ...argv], {
    env: { PATH: process.env.PATH, KEYRUN_DATA_DIR: keyrun.config.dataDir, ...env },
  });
}

test("a process that runs one command ends by itself, with its status and all it wrote", async () => {
  const create = start("keys", "create", "--team", "demo");
  const [value, [created]] = await Promise.all([text(create.stdout), once(create, "exit")]);
  const verify = start("keys", "verify");
  verify.stdin.write(value);
  const [verdict, [verified]] = await Promise.all([text(verify.stdout), once(verify, "exit")]);
  expect({ created, verdict, verified }).toEqual({ created: 0, verdict: "VALID\n", verified: 0 });
});

test("a reader that closes its end early is no failure", async () => {
  // More than a pipe holds.
  const url = `http://127.0.0.1:9000/${"x".repeat(2_000)}`;
  const backend = { kind: { case: "http", value: { url } } } as const;
  const created = Array.from({ length: 200 }, (_, n) =>
    keyrun.apps.createApp({ app: { id: `app-${n}`, backend } }),
  );
  await Promise.all(created);
  const list = start("apps", "list");
  list.stdout.destroy();
  const [stderr, [code]] = await Promise.all([text(list.stderr), once(list, "exit")]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

/** A run of an app that streams what the test writes. */
async function startRun(app: { readonly url: string }, ...options: string[]) {
  const backend = { kind: { case: "http", value: { url: app.url } } } as const;
  await keyrun.apps.createApp({ app: { id: "words", backend } });
  const { value } = await keyrun.newKey("demo");
  const env = { KEYRUN_URL: keyrun.publicUrl, KEYRUN_API_KEY: value };
  return startWith(env, "run", "words", ...options, "x");
}

test("run --stream prints each piece when it comes, and ends with the stream", async () => {
  await using app = await serveStreamedWords();
  const run = await startRun(app, "--stream");
  const pieces = run.stdout.setEncoding("utf8")[Symbol.asyncIterator]();
  const printed: unknown[] = [];
  // Each piece is written only after the one before was printed.
  for (const piece of ["one ", "two ", "three"]) {
    await app.write(piece);
    printed.push((await pieces.next()).value);
  }
  await app.end();
  const [code] = await once(run, "exit");
  expect({ code, printed }).toEqual({ code: 0, printed: ["one ", "two ", "three"] });
});

test.each([
  ["run --stream", ["--stream"]],
  ["run", []],
])("Ctrl-C ends %s, and the app is told", async (_, options) => {
  await using app = await serveStreamedWords();
  const run = await startRun(app, ...options);
  await app.write("one");
  const over = app.over();
  run.kill("SIGINT");
  const [[, signal]] = await Promise.all([once(run, "exit"), over]);
  expect(signal).toBe("SIGINT");
});

test("a run whose output has no reader any more is ended, and its app is told", async () => {
  await using app = await serveStreamedWords();
  const run = await startRun(app, "--stream");
  await app.write("one");
  await once(run.stdout, "data");
  const over = app.over();
  run.stdout.destroy();
  const isOver = over.then(() => true);
  // The first piece finds the pipe closed, and another one ends the run.
  while (!(await Promise.race([isOver, app.write("more")]))) await turn();
  const [[code]] = await Promise.all([once(run, "exit"), over]);
  expect(code).toBe(0);
});
