import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startSmallKeyrun } from "../harness/small-keyrun.ts";

const token = "token-for-tests-only-0123456789-abcdef";
const script = `import { runCli } from "#src/cli/run-cli.ts";
process.exitCode = await runCli(process.argv.slice(1), { serve: () => Promise.resolve(0) });`;
let dataDir: string;
let keyrun: Awaited<ReturnType<typeof startSmallKeyrun>>;

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "keyrun-run-cli-"));
  keyrun = await startSmallKeyrun(token);
  writeFileSync(join(dataDir, "service-token"), token, { mode: 0o600 });
  writeFileSync(join(dataDir, "grpc-address"), `127.0.0.1:${keyrun.port}`);
});

afterEach(async () => {
  await keyrun.close();
  rmSync(dataDir, { recursive: true });
});

function start(...argv: string[]) {
  return spawn(process.execPath, ["--input-type=module", "-e", script, "--", ...argv], {
    env: { PATH: process.env.PATH, KEYRUN_DATA_DIR: dataDir },
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
  for (let n = 0; n < 3; n++) keyrun.state.preview.add(`${"x".repeat(100_000)}${n}@example.com`);
  const list = start("preview", "list");
  list.stdout.destroy();
  const [stderr, [code]] = await Promise.all([text(list.stderr), once(list, "exit")]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});
