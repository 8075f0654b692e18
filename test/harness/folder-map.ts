import { importedPath, readFacts } from "./source-facts.ts";

/** A row of a page's map: some folders and files, what they hold, and what they import. */
export interface MapRow {
  /** Without the map's root: `keys/`, `log.ts`. */
  readonly names: readonly string[];
  readonly holds: string;
}

/**
 * The imports of each name of a map. A name outside of the map's root is a folder beside it:
 * `gen/`.
 */
export type FolderImports = ReadonlyMap<string, ReadonlySet<string>>;

/** The maps that the pages have, by the folder that each is a map of. */
export const folderMaps = [
  { page: "ARCHITECTURE.md", root: "src" },
  { page: "ARCHITECTURE.md", root: "web" },
] as const;

/** The rows of the page's map of `root`, in order. Throws where the page has no such map. */
export function readMap(page: string, root: string): MapRow[] {
  const table = placeOf(root).exec(page)?.groups?.table;
  if (table === undefined)
    throw new Error(`The page has no map of ${root}: ${startOf(root)} … ${endOf(root)}`);
  return table
    .split("\n")
    .slice(headLines)
    .filter((line) => line !== "")
    .map((line) => {
      const [, first = "", holds = ""] = line.split("|");
      return { names: [...first.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name), holds: holds.trim() };
    });
}

/** The page with the third column of its map of `root` drawn from what the sources import. */
export function withImports(page: string, root: string, sources: ReadonlyMap<string, string>): string {
  const rows = readMap(page, root);
  const imports = readFolderImports(sources, { root, names: namesOf(rows) });
  const lines = rows.map(({ names, holds }) => {
    const reached = new Set(names.flatMap((name) => [...(imports.get(name) ?? [])]));
    const others = [...reached].filter((name) => !names.includes(name)).sort();
    const words = others.map((name) => name.replace(/(\/|\.tsx?)$/, "")).join(", ");
    return `| ${names.map((name) => `\`${name}\``).join(", ")} | ${holds} | ${words || "nothing"} |`;
  });
  const table = [`| in \`${root}/\` | what it holds | what it imports |`, "| --- | --- | --- |", ...lines];
  return page.replace(placeOf(root), () => `${startOf(root)}\n${table.join("\n")}\n${endOf(root)}`);
}

/**
 * What each name imports beyond itself, types and deferred imports included. A file belongs to the
 * longest name that covers it, otherwise to its folder at the top of the root.
 */
export function readFolderImports(
  sources: ReadonlyMap<string, string>,
  { root, names }: { readonly root: string; readonly names: readonly string[] },
): Map<string, Set<string>> {
  const longestFirst = names.toSorted((a, b) => b.length - a.length);
  const nameOf = (path: string): string => {
    if (!path.startsWith(`${root}/`)) return topOf(path);
    const inside = path.slice(root.length + 1);
    return longestFirst.find((name) => inside === name || isIn(name, inside)) ?? topOf(inside);
  };
  const imports = new Map<string, Set<string>>();
  for (const [path, text] of sources) {
    const own = nameOf(path);
    const reached = imports.get(own) ?? new Set<string>();
    imports.set(own, reached);
    for (const { specifier } of readFacts(path, text).imports) {
      const target = importedPath(path, specifier);
      if (target !== undefined && nameOf(target) !== own) reached.add(nameOf(target));
    }
  }
  return imports;
}

/** Everything that a name reaches by one import or several. */
export function reachOf(name: string, imports: FolderImports): Set<string> {
  const reached = new Set<string>();
  const visit = (from: string): void => {
    for (const next of imports.get(from) ?? []) {
      if (reached.has(next)) continue;
      reached.add(next);
      visit(next);
    }
  };
  visit(name);
  return reached;
}

export function namesOf(rows: readonly MapRow[]): string[] {
  return rows.flatMap(({ names }) => names);
}

const headLines = 2;

function placeOf(root: string): RegExp {
  return new RegExp(`${startOf(root)}\n(?<table>[\\s\\S]*?)${endOf(root)}`);
}

function startOf(root: string): string {
  return `<!-- map of ${root}:start -->`;
}

function endOf(root: string): string {
  return `<!-- map of ${root}:end -->`;
}

function isIn(name: string, path: string): boolean {
  return name.endsWith("/") && path.startsWith(name);
}

function topOf(path: string): string {
  const slash = path.indexOf("/");
  return slash < 0 ? path : path.slice(0, slash + 1);
}
