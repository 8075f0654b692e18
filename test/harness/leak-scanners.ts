import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { repository } from "./keyrun-process.ts";
import { python, pythonEnv, pythonHas } from "./python.ts";

const patterns = join(repository, "docs/leaked-keys");

/** The paths of the files for other scanners. */
export const patternFiles = {
  gitleaks: join(patterns, "gitleaks.toml"),
  trufflehog: join(patterns, "trufflehog.yaml"),
  github: join(patterns, "github-pattern.txt"),
} as const;

/** On the PATH, or where Go puts programs. Undefined where it is not installed. */
export const gitleaks = findProgram("gitleaks");

/**
 * TruffleHog takes minutes to build, so it is tried by hand. Its licence is the AGPL, so nothing
 * here links to its modules. CONTRIBUTING.md has the commands.
 */
export const trufflehog = process.env.KEYRUN_TEST_TRUFFLEHOG || undefined;

/** The engine that GitHub's secret scanning uses. */
export const hasHyperscan = pythonHas("hyperscan");

/** What of the scanners is not here, and how it is had. */
export const missingScanners = [
  ...(gitleaks ? [] : ["gitleaks: `go install github.com/zricethezav/gitleaks/v8@v8.28.0` installs it"]),
  ...(hasHyperscan ? [] : ["hyperscan for Python: `bash .ci/run` installs it"]),
];

function findProgram(name: string): string | undefined {
  const places = [...(process.env.PATH ?? "").split(delimiter), join(homedir(), "go/bin")];
  return places.map((place) => join(place, name)).find((path) => existsSync(path));
}

/** Runs a scanner. Resolves with its exit status and all that it printed. */
export function outputOf(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<{ code: number; stdout: string; out: string }> {
  return new Promise((resolve) => {
    execFile(program, args, { maxBuffer: 256 * 1024 * 1024, env }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, stdout, out: stdout + stderr }),
    );
  });
}

/** The parts of GitHub's form as one expression: the secret between what stands around it. */
export function githubPattern(): string {
  const text = readFileSync(patternFiles.github, "utf8");
  const part = (title: string) => text.split(`${title}\n`)[1]?.split("\n")[0] ?? "";
  return `(?:${part("Before secret")})${part("Secret format")}(?:${part("After secret")})`;
}

interface HyperscanAnswer {
  readonly files: number;
  readonly bytes: number;
  readonly matches: readonly { readonly path: string; readonly text: string }[];
}

/** What Hyperscan matches in the files of a folder and below. */
export async function hyperscan(expression: string, folder: string): Promise<HyperscanAnswer> {
  const script = join(repository, "test/interop/hyperscan_matches.py");
  const { code, stdout, out } = await outputOf(python, [script, expression, folder], pythonEnv);
  if (code !== 0) throw new Error(out);
  return JSON.parse(stdout);
}
