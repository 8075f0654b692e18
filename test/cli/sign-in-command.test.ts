import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createCli } from "#src/cli/cli.ts";
import { smallSignInLink, startSmallKeyrun } from "../harness/small-keyrun.ts";

const token = "token-for-tests-only-0123456789-abcdef";
const dataDir = mkdtempSync(join(tmpdir(), "keyrun-cli-"));
let keyrun: Awaited<ReturnType<typeof startSmallKeyrun>>;
beforeAll(async () => {
  keyrun = await startSmallKeyrun(token);
  writeFileSync(join(dataDir, "service-token"), token);
  writeFileSync(join(dataDir, "grpc-address"), `127.0.0.1:${keyrun.port}`);
});
afterAll(async () => {
  await keyrun.close();
  rmSync(dataDir, { recursive: true });
});

async function run(...argv: string[]) {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const cli = createCli({
    env: { KEYRUN_DATA_DIR: dataDir },
    nodeVersion: process.versions.node,
    stdin: Readable.from([]),
    stdout: { write: (text) => stdout.push(text) },
    stderr: { write: (text) => stderr.push(text) },
    readFile: (path) => readFileSync(path, "utf8"),
    serve: () => Promise.reject(new Error("not to be served")),
  });
  const code = await cli.run(argv);
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
}

test("sign-in-link prints the link alone on standard output, and until when it works beside it", async () => {
  expect(await run("sign-in-link")).toEqual({
    code: 0,
    stdout: `${smallSignInLink}\n`,
    stderr:
      "Open it in a browser on this machine. It works once until 2026-01-02T03:04:05Z; whoever opens it is signed in.\n",
  });
});

test("sign-in-link --json is the RPC's response", async () => {
  const { stdout } = await run("sign-in-link", "--json");
  expect(JSON.parse(stdout)).toEqual({ url: smallSignInLink, expireTime: "2026-01-02T03:04:05.678Z" });
});

test("where an issuer signs people in, it says where", async () => {
  keyrun.state.signInIsLocal = false;
  const { code, stdout, stderr } = await run("sign-in-link");
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain("Sign in at https://keyrun.example.com/sign-in.");
});
