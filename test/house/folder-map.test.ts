import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  folderMaps,
  namesOf,
  reachOf,
  readFolderImports,
  readMap,
  withImports,
} from "../harness/folder-map.ts";
import { readSources } from "../harness/source-facts.ts";

const at = (path: string) => new URL(`../../${path}`, import.meta.url);
const readPage = (page: string) => readFileSync(at(page), "utf8");

describe.each(folderMaps)("the map of $root in $page", ({ page, root }) => {
  const text = readPage(page);
  const sources = readSources(root);
  const rows = readMap(text, root);
  const names = namesOf(rows);
  const imports = readFolderImports(sources, { root, names });

  test("says what each row imports (if it does not, run `npm run docs`)", () => {
    expect(text).toBe(withImports(text, root, sources));
  });

  test("has every source file under one of its names, and no name that is not there", () => {
    expect(names.filter((name) => !existsSync(at(`${root}/${name}`)))).toEqual([]);
    expect([...imports.keys()].filter((name) => !names.includes(name))).toEqual([]);
    expect(names.length).toBe(new Set(names).size);
  });

  test("says of each row what it holds", () => {
    expect(rows.filter(({ holds }) => holds.length < 10)).toEqual([]);
  });

  test("imports only what stands in a lower row", () => {
    const places = new Map(rows.flatMap((row, place) => row.names.map((name) => [name, place])));
    const upward = rows.flatMap((row, place) =>
      row.names.flatMap((from) =>
        [...(imports.get(from) ?? [])]
          .filter((to) => (places.get(to) ?? Number.POSITIVE_INFINITY) < place)
          .map((to) => `${from} → ${to}`),
      ),
    );
    // The screen loads these parts after its first view, from below.
    expect(upward.filter((edge) => edge !== "lazy/ → parts.ts")).toEqual([]);
  });
});

test("caller → server → rest or rpc → admission → run is a way without an import back", () => {
  const line = /^caller → (.*)$/m.exec(readPage("README.md"))?.[1] ?? "";
  expect(line).toBe("server → rest or rpc → admission → run");
  const steps = line.split(" → ").map((step) => step.split(" or ").map((name) => `${name}/`));
  const imports = readFolderImports(readSources("src"), { root: "src", names: steps.flat() });
  expect(steps.flat().filter((name) => !imports.has(name))).toEqual([]);

  const back = steps.flatMap((step, place) =>
    step.flatMap((from) => {
      const reached = reachOf(from, imports);
      const earlier = steps.slice(0, place).flat();
      return earlier.filter((to) => reached.has(to)).map((to) => `${from} → … → ${to}`);
    }),
  );
  expect(back).toEqual([]);
});

describe("a map is drawn from real imports", () => {
  const pageWith = (row: string) =>
    [
      "# A\n<!-- map of src:start -->",
      "| in `src/` | what it holds | what it imports |\n| --- | --- | --- |",
      `${row}\n<!-- map of src:end -->\nB\n`,
    ].join("\n");

  test("types, deferred imports, the generated code and files at the top; packages are left out", () => {
    const sources = new Map([
      [
        "src/keys/a.ts",
        'import type { A } from "../auth/a.ts"; import { b } from "./b.ts"; import "node:fs";',
      ],
      [
        "src/keys/deep/b.ts",
        'import { K } from "#gen/keyrun/v1/key_pb.ts"; import { log } from "../../log.ts";',
      ],
      ["src/log.ts", 'export const late = () => import("./app/start.ts");'],
    ]);
    const imports = readFolderImports(sources, { root: "src", names: [] });
    expect(imports).toEqual(
      new Map([
        ["keys/", new Set(["auth/", "gen/", "log.ts"])],
        ["log.ts", new Set(["app/"])],
      ]),
    );
    expect(reachOf("keys/", imports)).toEqual(new Set(["auth/", "gen/", "log.ts", "app/"]));
  });

  test("a file counts under the longest name that its path begins with", () => {
    const sources = new Map([
      ["src/keys/a.ts", 'import "./create/b.ts";'],
      ["src/keys/create/b.ts", 'import "../c.ts";'],
    ]);
    expect(readFolderImports(sources, { root: "src", names: ["keys/", "keys/create/"] })).toEqual(
      new Map([
        ["keys/", new Set(["keys/create/"])],
        ["keys/create/", new Set(["keys/"])],
      ]),
    );
  });

  test("a row of several names has what they import beyond each other", () => {
    const sources = new Map([
      ["src/keys/a.ts", 'import "../teams/a.ts"; import "../log.ts";'],
      ["src/teams/a.ts", 'import "../auth/a.ts";'],
    ]);
    const drawn = withImports(pageWith("| `keys/`, `teams/` | services | old |"), "src", sources);
    expect(drawn).toBe(pageWith("| `keys/`, `teams/` | services | auth, log |"));
    expect(withImports(drawn, "src", sources)).toBe(drawn);
  });

  test("a page without the map is refused", () => {
    expect(() => readMap("# A\n", "src")).toThrow("map of src:start");
  });
});
