import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createKeyText } from "#src/keys/key-value.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import {
  githubPattern,
  gitleaks,
  hasHyperscan,
  hyperscan,
  missingScanners,
  outputOf,
  patternFiles,
  trufflehog,
} from "../harness/leak-scanners.ts";
import { python } from "../harness/python.ts";
import { seedLeaks } from "../harness/seeded-leaks.ts";

if (missingScanners.length > 0) process.stderr.write(`Left out is ${missingScanners.join("; ")}.\n`);

const folders = tempFolders();
const { folder, leaks, lookalikes } = seedLeaks(folders.create());
const [cut = "", ...mistyped] = lookalikes;

/** The places of the keys that a text holds. */
const foundIn = (text: string) =>
  Object.entries(leaks)
    .filter(([, value]) => text.includes(value))
    .map(([place]) => place)
    .sort();

const committed = ["branch", "first", "removed", "second", "text"];

test("the scanners are installed where every test is required", () => {
  expect(process.env.KEYRUN_TEST_REQUIRE_ALL === "1" ? missingScanners : []).toEqual([]);
});

describe("the pattern in the files for other scanners", () => {
  const expressionIn = {
    gitleaks: /^regex = '''(.*)'''$/m,
    trufflehog: /^ {6}key: '(.*)'$/m,
    github: /^Secret format\n(.*)$/m,
  } as const;
  const { pattern } = createKeyText("svc");

  test.each(["gitleaks", "trufflehog", "github"] as const)("is the form of keys: %s", (scanner) => {
    const text = readFileSync(patternFiles[scanner], "utf8");
    expect(expressionIn[scanner].exec(text)?.[1]).toBe(pattern);
  });

  const engines: Readonly<Record<string, (text: string) => string[]>> = {
    JavaScript: (text) => text.match(new RegExp(pattern, "g")) ?? [],
    Python: (text) =>
      lines(
        python,
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
});

describe.skipIf(!hasHyperscan)("the parts of GitHub's form, in Hyperscan", () => {
  const whole = githubPattern();

  /** The matches in texts that are a file each, by its name. */
  async function matchesIn(files: Readonly<Record<string, string>>): Promise<Map<string, string[]>> {
    const place = folders.create();
    for (const [name, text] of Object.entries(files)) writeFileSync(join(place, name), text);
    const { matches } = await hyperscan(whole, place);
    const nameOf = (path: string) => path.slice(place.length + 1);
    const byName = Map.groupBy(matches, ({ path }) => nameOf(path));
    return new Map([...byName].map(([name, found]) => [name, found.map(({ text }) => text)]));
  }

  test("find every key of the files and of the history but that in UTF-16, and none that is cut or of another prefix", async () => {
    const objects = folders.create();
    const list = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"];
    const ids = lines("git", ["-C", folder, ...list], "").filter((object) => object.endsWith(" blob"));
    for (const id of ids.map((object) => object.split(" ")[0]!)) {
      writeFileSync(join(objects, id), execFileSync("git", ["-C", folder, "cat-file", "blob", id]));
    }
    const inHistory = (await hyperscan(whole, objects)).matches.map(({ text }) => text);
    expect(foundIn(inHistory.join("\n"))).toEqual([...committed, "binary"].sort());
    // Each once, and the two mistyped ones, whose checksum it can't compute.
    expect(inHistory.length).toBe(committed.length + 1 + mistyped.length);
    for (const value of mistyped) expect(inHistory.join("\n")).toContain(value);
    const inFiles = await hyperscan(whole, join(folder, "."));
    const ofTree = inFiles.matches.filter(({ path }) => !path.includes("/.git/"));
    expect(foundIn(ofTree.map(({ text }) => text).join("\n"))).toEqual(
      ["binary", "first", "second", "text", "untracked"].sort(),
    );
  });

  test("find a key in every usual place, and in none where it goes on", async () => {
    const key = leaks.text!;
    const around = [
      key,
      `KEY=${key}`,
      `"${key}"`,
      `Bearer ${key}\n`,
      `//${key}@host`,
      `\t${key};`,
      `_${key}_`,
    ];
    const usual = await matchesIn(Object.fromEntries(around.map((text, n) => [`${n}`, text])));
    for (const [n, text] of around.entries()) {
      const found = usual.get(`${n}`) ?? [];
      expect([found.length, found[0]?.includes(key)], text.replaceAll(key, "…")).toEqual([1, true]);
    }
    const [start, id, secret] = [key.slice(0, 4), key.slice(4, 28), key.slice(28)];
    const decoys = [
      ...[
        `${key}0`,
        `x${key}`,
        cut,
        `${start}${id.toUpperCase()}A${secret}`,
        `${start}${"i".repeat(24)}${secret}`,
      ],
      ...[
        `${start}${id} ${secret}`,
        `SVC_${id}${secret}`,
        `${start}${id}.${secret}`,
        `${start}${id}-${secret}`,
      ],
      ...["svc_<id>.<secret>", "svc_7k3f…x9Qz", `svc_${"x".repeat(24)}.key`, `${start}${id}`],
    ];
    expect(await matchesIn(Object.fromEntries(decoys.map((text, n) => [`${n}`, text])))).toEqual(new Map());
  });
});

const report = ["--no-banner", "--report-format", "json", "--report-path", "-", "--exit-code", "7"];

test.skipIf(gitleaks === undefined)("gitleaks finds the keys in the history and in the files", async () => {
  const args = ["--config", patternFiles.gitleaks, ...report];
  const inHistory = await outputOf(gitleaks!, ["git", ...args, folder]);
  expect([inHistory.code, foundIn(inHistory.out)]).toEqual([7, committed]);
  const inFiles = await outputOf(gitleaks!, ["dir", ...args, folder]);
  expect([inFiles.code, foundIn(inFiles.out)]).toEqual([7, ["first", "second", "text", "untracked"]]);
  for (const { out } of [inHistory, inFiles]) expect(out).not.toContain(cut);
  const redacted = await outputOf(gitleaks!, ["git", ...args, "--redact", folder]);
  expect([redacted.code, foundIn(redacted.out)]).toEqual([7, []]);
});

if (trufflehog !== undefined) {
  const program = trufflehog;
  test("TruffleHog finds the keys in the history and in the files, also in binary ones", async () => {
    const config = ["--config", patternFiles.trufflehog];
    const options = [...config, "--no-verification", "--no-update", "--json", "--fail"];
    const inHistory = await outputOf(program, ["git", `file://${folder}`, ...options]);
    expect([inHistory.code, foundIn(inHistory.out)]).toEqual([183, [...committed, "binary", "wide"].sort()]);
    const inFiles = await outputOf(program, ["filesystem", folder, ...options]);
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
