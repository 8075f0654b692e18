import { execFile, execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { expect, test } from "vitest";
import { campaignSize, figures } from "../harness/campaigns.ts";

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
 * only over plaintext and with one compression, unless the campaign asks for all.
 */
const skipped =
  campaignSize("conformance") > 1
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
    const { told } = await judge(skipped);
    const [, cases, passed] = /Total cases: (\d+)\n(\d+) passed/.exec(told) ?? [];
    expect(Number(cases), told).toBeGreaterThan(4_942);
    const failed = [...told.matchAll(/^FAILED: (.*):$/gm)].map(([, name]) => name ?? "");
    expect(Number(passed) + failed.length, told).toBe(Number(cases));
    // Some cases measure deadlines, and thousands compete for the machine. One that failed has to
    // pass alone.
    figures("", { cases: Number(cases), "cases run again alone": failed.length });
    expect(failed.length, told).toBeLessThanOrEqual(casesRepeatedMax);
    for (const name of failed) {
      const alone = await judge(["--run", name]);
      expect(alone.told).toMatch(/\b1 passed, 0 failed\b/);
      process.stdout.write(`passed alone, and not beside others: ${name}\n`);
    }
  },
);

const casesRepeatedMax = 5;

/** Runs the suite, or a part of it, and returns what the runner says but for its information. */
async function judge(args: readonly string[]) {
  const { told } = await run(runner ?? "", [
    ...["--mode", "server", "--conf", `${folder}/features.yaml`],
    ...args,
    ...["--", process.execPath, `${folder}/server.ts`],
  ]);
  return { told: told.replace(/^INFO: .*\n(\t.*\n)*/gm, "") };
}

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
