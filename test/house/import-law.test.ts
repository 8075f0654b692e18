import { describe, expect, test } from "vitest";
import { readFacts, readSources } from "../harness/source-facts.ts";
import { findViolations } from "./import-law.ts";

const sources = new Map([...readSources("src"), ...readSources("packages/transcode/src")]);

test("the source keeps the law: order of imports, places of packages, sizes and names", () => {
  expect(findViolations(sources)).toEqual([]);
});

test("the law has read the whole source: every file, and every import in it", () => {
  expect(sources.size).toBeGreaterThan(100);
  for (const [path, text] of sources) {
    // Counted in another way than by the parser that the law relies on.
    const lines = text.match(/^(import\b(?!\()|\} from )/gm) ?? [];
    const opened = text.match(/^import (type )?\{$/gm) ?? [];
    const { imports } = readFacts(path, text);
    const statics = imports.length - (text.match(/\bimport\(/g) ?? []).length;
    expect({ path, imports: statics }).toEqual({ path, imports: lines.length - opened.length });
  }
  const all = [...sources].flatMap(([path, text]) => readFacts(path, text).imports);
  expect(all.length).toBeGreaterThan(400);
});

describe("each rule finds what breaks it", () => {
  const cases: Record<string, [path: string, text: string, said: RegExp]> = {
    "an import of a later stage": [
      "src/limit/a.ts",
      'import { x } from "../run/b.ts";',
      /limit stands before run/,
    ],
    "a type of a later stage": [
      "src/auth/a.ts",
      'import type { X } from "../keys/b.ts";',
      /auth stands before keys/,
    ],
    "an import between siblings": [
      "src/teams/a.ts",
      'import { x } from "../apps/b.ts";',
      /teams stands before apps/,
    ],
    "a dynamic import": [
      "src/limit/a.ts",
      'const x = await import("../app/start.ts");',
      /limit stands before app/,
    ],
    "a folder that the law does not know": ["src/magic/a.ts", "", /no stage for it/],
    "a store that reaches beyond the ports": [
      "src/store/sqlite/a.ts",
      'import { x } from "../../keys/keyring.ts";',
      /only the ports/,
    ],
    "a store that knows the other": [
      "src/store/mongo/a.ts",
      'import { x } from "../sqlite/b.ts";',
      /the other/,
    ],
    "a transcoder that knows a key": [
      "packages/transcode/src/a.ts",
      'import { Key } from "#gen/keyrun/v1/key_pb.ts";',
      /knows nothing of Keyrun/,
    ],
    "a transcoder that knows our errors": [
      "packages/transcode/src/a.ts",
      'import { fail } from "#src/refusal/refusal.ts";',
      /hand it in/,
    ],
    "a package out of its place": [
      "src/keys/a.ts",
      'import { Db } from "mongodb";',
      /is for src\/store\/mongo/,
    ],
    "a part of a package": ["src/keys/a.ts", 'import x from "mongodb/lib/x";', /is for src\/store\/mongo/],
    randomness: [
      "src/keys/a.ts",
      'import { createHmac, randomBytes } from "node:crypto";',
      /imports randomness/,
    ],
    "all of crypto": ["src/keys/a.ts", 'import * as crypto from "node:crypto";', /imports randomness/],
    "Math.random": ["src/keys/a.ts", "const x = Math.random();", /uses Math\.random/],
    "the clock": ["src/keys/a.ts", "const x = () => Date.now();", /uses Date\.now/],
    "the other clock": ["src/keys/a.ts", "const { now } = performance;", /uses performance/],
    "a new date of now": ["src/keys/a.ts", "const x = new Date();", /uses new Date\(\)/],
    "the environment": ["src/keys/a.ts", "const { env } = process;", /uses process/],
    "a console": ["src/keys/a.ts", 'console.log("x");', /uses console\.log/],
    "a default export": ["src/keys/a.ts", "export default 1;", /default export/],
    "a barrel": ["src/keys/a.ts", 'export * from "./b.ts";', /exports from/],
    "a re-exported name": ["src/keys/a.ts", 'export { x } from "./b.ts";', /exports from/],
    "a spread that packs lines": ["src/keys/a.ts", "const x = {\n  ...{ a, b: c },\n};", /write its members/],
    "an empty name": ["src/keys/utils.ts", "", /name it after/],
    "a long file": ["src/keys/a.ts", "\n".repeat(401), /has 401 lines/],
  };
  test.each(Object.entries(cases))("%s", (_, [path, text, said]) => {
    expect(findViolations(new Map([[path, text]]))).toEqual([expect.stringMatching(said)]);
  });

  test("files that import one another", () => {
    const circle = new Map([
      ["src/keys/a.ts", 'import { b } from "./b.ts";'],
      ["src/keys/b.ts", 'import { a } from "./a.ts";'],
    ]);
    expect(findViolations(circle)).toEqual([
      "src/keys/a.ts → src/keys/b.ts → src/keys/a.ts: break the circle.",
    ]);
  });
});

test("what the law allows is no violation", () => {
  const lawful = `
    import { createHmac } from "node:crypto";
    import type { Clock } from "../base/clock.ts";
    import type { KeyRecord } from "./key-store.ts";
    // process.env and Date.now() in a comment
    export const told = (clock: Clock, key: KeyRecord & { process: string }) =>
      [new Date(clock.unixMs()), createHmac, key.process, "console.log", { process: 1 }];
  `;
  expect(findViolations(new Map([["src/keys/a.ts", lawful]]))).toEqual([]);
});
