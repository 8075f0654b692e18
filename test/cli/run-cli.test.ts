import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";

const script = `import { runCli } from "#src/cli/cli.ts";
process.exitCode = await runCli(process.argv.slice(1), { serve: () => Promise.resolve(0) });`;
let keyrun: Keyrun;

beforeEach(async () => {
  keyrun = await startKeyrun();
});

afterEach(() => keyrun.close());

function start(...argv: string[]) {
  return spawn(process.execPath, ["--input-type=module", "-e", script, "--", ...argv], {
    env: { PATH: process.env.PATH, KEYRUN_DATA_DIR: keyrun.config.dataDir },
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
