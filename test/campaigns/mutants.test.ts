/**
 * Plants the faults of the table in a copy of the clone, one after the other. `npm test` must see
 * each: first the test file that the table names, and where that stays green, the whole of it.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { campaignSize, figures } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { mutants } from "./mutants.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const folders = tempFolders();
const size = Math.min(campaignSize("mutants"), mutants.length);
/** So many of the table, from all of its parts. */
const chosen = mutants.filter(
  (_, n) => Math.floor(((n + 1) * size) / mutants.length) > Math.floor((n * size) / mutants.length),
);
const found = { planted: 0, "killed by the named file": 0, "killed by another test": 0, survived: 0 };

const copy = folders.create();
const listed = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], {
  cwd: root,
  encoding: "utf8",
});
for (const file of listed
  .trimEnd()
  .split("\n")
  .filter((each) => existsSync(join(root, each)))) {
  mkdirSync(dirname(join(copy, file)), { recursive: true });
  cpSync(join(root, file), join(copy, file));
}
for (const made of ["node_modules", "web/dist"]) symlinkSync(join(root, made), join(copy, made));

afterAll(async () => {
  figures("", found);
});

test("the named test files are green without a fault", () => {
  const files = new Set(chosen.map((each) => each.test).filter((file) => existsSync(join(copy, file))));
  expect(redTests([...files])).toEqual([]);
});

describe("a test goes red for", () => {
  test.each(chosen)("$fault", ({ file, text, by, test: named }) => {
    const path = join(copy, file);
    const sound = readFileSync(path, "utf8");
    expect(sound).toContain(text);
    writeFileSync(
      path,
      sound.replace(text, () => by),
    );
    found.planted += 1;
    try {
      if (existsSync(join(copy, named)) && redTests([named], "--bail=1").length > 0) {
        found["killed by the named file"] += 1;
        return;
      }
      const red = redTests([], "--bail=1");
      found[red.length > 0 ? "killed by another test" : "survived"] += 1;
      expect(red).not.toEqual([]);
    } finally {
      writeFileSync(path, sound);
    }
  });
});

/** Runs quick tests of the copy. Returns the names of those that fail, or that were never run. */
function redTests(words: readonly string[], ...options: readonly string[]): string[] {
  const report = join(copy, "mutants-report.json");
  const vitest = join(copy, "node_modules/vitest/vitest.mjs");
  const output = ["--reporter=json", `--outputFile=${report}`];
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(VITEST|KEYRUN_TEST_)/.test(name)),
  );
  const { signal } = spawnSync(
    process.execPath,
    [vitest, ...words, "--run", "--project=quick*", ...options, ...output],
    {
      ...{ cwd: copy, env, timeout: hungMs, killSignal: "SIGKILL" },
    },
  );
  if (signal !== null) return ["a test that hangs"];
  const { testResults } = JSON.parse(readFileSync(report, "utf8")) as Report;
  rmSync(report);
  expect(testResults.length, `tests of ${words.join(" ")}`).toBeGreaterThan(0);
  return testResults.flatMap(({ name, status, assertionResults }) => {
    const red = assertionResults.filter((each) => each.status === "failed").map(({ fullName }) => fullName);
    return red.length === 0 && status === "failed" ? [name] : red;
  });
}

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

const hungMs = 1_200_000;
