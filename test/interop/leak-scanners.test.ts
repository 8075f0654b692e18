import { execFile, execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { createKeyText } from "#src/keys/key-text.ts";
import { repository } from "../harness/keyrun-process.ts";
import { seedLeaks } from "../harness/seeded-leaks.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const patterns = join(repository, "docs/leaked-keys");
const gitleaks = findProgram("gitleaks");
const trufflehog = findProgram("trufflehog");
const missing =
  gitleaks === undefined
    ? "gitleaks is left out: `go install github.com/zricethezav/gitleaks/v8@v8.28.0` includes it."
    : undefined;
if (missing !== undefined) process.stderr.write(`${missing}\n`);

const folders = createTempFolders();
afterAll(folders.remove);
const { folder, leaks, lookalikes } = seedLeaks(folders.create());
const [cut = "", ...mistyped] = lookalikes;

/** On the PATH, or where Go puts programs. */
function findProgram(name: string): string | undefined {
  const places = [...(process.env.PATH ?? "").split(delimiter), join(homedir(), "go/bin")];
  return places.map((place) => join(place, name)).find((path) => existsSync(path));
}

function outputOf(program: string, args: readonly string[]): Promise<{ code: number; out: string }> {
  return new Promise((resolve) => {
    const options = { maxBuffer: 64 * 1024 * 1024, cwd: folder };
    execFile(program, args, options, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, out: stdout + stderr }),
    );
  });
}

/** The places of the keys that a text holds. */
const foundIn = (text: string) =>
  Object.entries(leaks)
    .filter(([, value]) => text.includes(value))
    .map(([place]) => place)
    .sort();

const committed = ["branch", "first", "removed", "second", "text"];

test("gitleaks is installed where every test is required", () => {
  expect(process.env.KEYRUN_TEST_REQUIRE_ALL === "1" && missing).toBeFalsy();
});

describe("the pattern in the files for other scanners", () => {
  const expressionIn: Readonly<Record<string, RegExp>> = {
    "gitleaks.toml": /^regex = '''(.*)'''$/m,
    "trufflehog.yaml": /^ {6}key: '(.*)'$/m,
    "github-pattern.txt": /^Secret format\n(.*)$/m,
  };
  const { pattern } = createKeyText("svc");

  test.each(Object.entries(expressionIn))("is the form of keys: %s", (file, expression) => {
    expect(expression.exec(readFileSync(join(patterns, file), "utf8"))?.[1]).toBe(pattern);
  });

  // GitHub runs Hyperscan, of which the pattern uses only what every one of these has, too.
  const engines: Readonly<Record<string, (text: string) => string[]>> = {
    JavaScript: (text) => text.match(new RegExp(pattern, "g")) ?? [],
    Python: (text) =>
      lines(
        "/usr/bin/python3",
        ["-c", "import re,sys\nprint(*re.findall(sys.argv[1],sys.stdin.read()),sep='\\n')", pattern],
        text,
      ),
    "grep -E": (text) => lines("grep", ["-aoE", pattern], text),
    "PCRE of grep": (text) => lines("grep", ["-aoP", pattern], text),
  };

  test.each(Object.entries(engines))("finds every committed key, and none that is cut: %s", (_, find) => {
    const options = { cwd: folder, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 } as const;
    const history = execFileSync("git", ["log", "-p", "--all", "--text", "--no-color"], options);
    const found = find(history);
    expect(foundIn(found.join("\n"))).toEqual([...committed, "binary"].sort());
    for (const value of mistyped) expect(found).toContain(value);
    expect(found.join("\n")).not.toContain(cut);
    expect(find(`svc_${"x".repeat(24)}.key and svc_id.secret and svc_<id>.<secret>`)).toEqual([]);
  });

  test("with the borders of the GitHub pattern finds a key in every usual place", () => {
    const text = readFileSync(join(patterns, "github-pattern.txt"), "utf8");
    const part = (title: string) => text.split(`${title}\n`)[1]?.split("\n")[0] ?? "";
    const border = (title: string) => part(title).replace("\\A", "^").replace("\\z", "$");
    const whole = new RegExp(
      `(?:${border("Before secret")})(${part("Secret format")})(?:${border("After secret")})`,
    );
    const key = leaks.text!;
    for (const around of [key, `KEY=${key}`, `"${key}"`, `Bearer ${key}\n`, `//${key}@host`, `\t${key};`])
      expect(whole.exec(around)?.[1], around.replaceAll(key, "…")).toBe(key);
    expect(whole.test(`${key}0`)).toBe(false);
  });
});

const report = ["--no-banner", "--report-format", "json", "--report-path", "-", "--exit-code", "7"];

test.skipIf(gitleaks === undefined)("gitleaks finds the keys in the history and in the files", async () => {
  const args = ["--config", join(patterns, "gitleaks.toml"), ...report];
  const inHistory = await outputOf(gitleaks!, ["git", ...args, folder]);
  expect([inHistory.code, foundIn(inHistory.out)]).toEqual([7, committed]);
  const inFiles = await outputOf(gitleaks!, ["dir", ...args, folder]);
  expect([inFiles.code, foundIn(inFiles.out)]).toEqual([7, ["first", "second", "text", "untracked"]]);
  for (const { out } of [inHistory, inFiles]) expect(out).not.toContain(cut);
  const redacted = await outputOf(gitleaks!, ["git", ...args, "--redact", folder]);
  expect([redacted.code, foundIn(redacted.out)]).toEqual([7, []]);
});

// It takes minutes to build. Where it is missing, the engines above stand for it.
if (trufflehog !== undefined) {
  test("TruffleHog finds the keys in the history and in the files, also in binary ones", async () => {
    const config = ["--config", join(patterns, "trufflehog.yaml")];
    const options = [...config, "--no-verification", "--no-update", "--json", "--fail"];
    const inHistory = await outputOf(trufflehog, ["git", `file://${folder}`, ...options]);
    expect([inHistory.code, foundIn(inHistory.out)]).toEqual([183, [...committed, "binary", "wide"].sort()]);
    const inFiles = await outputOf(trufflehog, ["filesystem", folder, ...options]);
    expect(foundIn(inFiles.out)).toEqual(
      expect.arrayContaining(["binary", "first", "second", "text", "untracked", "wide"]),
    );
    for (const { out } of [inHistory, inFiles]) expect(out).not.toContain(cut);
  });
}

/** The lines that a filter prints; grep ends with 1 where it prints none. */
function lines(program: string, args: readonly string[], input: string): string[] {
  const { status, stdout, stderr } = spawnSync(program, args, { input, encoding: "utf8" });
  if (status !== 0 && status !== 1) throw new Error(`${program}: ${stderr}`);
  return stdout.split("\n").filter(Boolean);
}
