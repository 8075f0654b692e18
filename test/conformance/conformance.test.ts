import { execFile, execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { expect, test } from "vitest";

const version = "v1.0.5";
const folder = "test/conformance";
const runner = findRunner();
const missing =
  runner === undefined
    ? "The conformance runner is left out: " +
      `\`go install connectrpc.com/conformance/cmd/connectconformance@${version}\` includes it.`
    : undefined;
if (missing !== undefined) process.stderr.write(`${missing}\n`);

/**
 * The runner compares large messages slowly: all cases of message sizes take minutes. So they run
 * only over plaintext and with one compression, unless KEYRUN_TEST_CONFORMANCE is `all`.
 */
const skipped =
  process.env.KEYRUN_TEST_CONFORMANCE === "all"
    ? []
    : [
        ...["--skip", "Server Message Size/*/*/*/TLS:true/**"],
        ...["--skip", "Server Message Size/*/*/Compression:COMPRESSION_BR/**"],
      ];

test("the conformance runner is installed where every test is required", () => {
  expect(process.env.KEYRUN_TEST_REQUIRE_ALL === "1" && missing).toBeFalsy();
});

test.skipIf(runner === undefined)(
  "another service, passed only as an argument, is served as all protocols demand, over HTTP/1.1 and HTTP/2",
  { timeout: 1_200_000 },
  async () => {
    const { status, told } = await run(runner ?? "", [
      ...["--mode", "server", "--conf", `${folder}/features.yaml`],
      ...skipped,
      ...["--", process.execPath, `${folder}/server.ts`],
    ]);
    const words = told.replace(/^INFO: .*\n(\t.*\n)*/gm, "");
    expect(words).toMatch(/\b0 failed\b/);
    expect(status, words).toBe(0);
    expect(Number(/Total cases: (\d+)/.exec(told)?.[1])).toBeGreaterThan(4_942);
  },
);

/** Looks for the runner on the PATH and in the folders where Go installs programs. */
function findRunner(): string | undefined {
  const folders = [...(process.env.PATH ?? "").split(delimiter), goBin(), join(homedir(), "go/bin")];
  return folders.map((each) => join(each, "connectconformance")).find(existsSync);
}

function goBin(): string {
  try {
    const path = execFileSync("go", ["env", "GOPATH"], { stdio: ["ignore", "pipe", "ignore"] });
    return join(String(path).trim(), "bin");
  } catch {
    return "";
  }
}

function run(command: string, args: readonly string[]): Promise<{ status: number; told: string }> {
  return new Promise((resolve) => {
    execFile(command, args, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      const status = error === null ? 0 : Number(error.code ?? 1);
      resolve({ status, told: `${stdout}${stderr}` });
    });
  });
}
