import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "vite";

/** What the law needs to know of a source file. Vite parses it: TypeScript 7 has no parser API. */
export interface SourceFacts {
  /** From the root of the repository, with slashes. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly ImportFact[];
  /** The modules that the file re-exports from. */
  readonly reExports: readonly string[];
  readonly hasDefaultExport: boolean;
  /** Whether it spreads a literal, which only puts several members on one line. */
  readonly packsLines: boolean;
  /** Uses of the process's clock, randomness, console and environment, such as `Date.now`. */
  readonly ambient: readonly string[];
}

export interface ImportFact {
  readonly specifier: string;
  readonly names: readonly string[];
  /** What the file itself calls them. */
  readonly locals: readonly string[];
}

/** The path in the repository that an import means; undefined for a package. */
export function importedPath(from: string, specifier: string): string | undefined {
  if (specifier.startsWith(transcode)) return `packages/transcode/src/${specifier.slice(transcode.length)}`;
  if (specifier.startsWith("#")) return specifier.slice(1);
  return specifier.startsWith(".") ? posix.join(posix.dirname(from), specifier) : undefined;
}

/** The package's name in the `imports` of package.json. All others there are names of folders. */
const transcode = "#transcode/";

/** Every TypeScript file in a folder of the repository, by path. */
export function readSources(folder: string): Map<string, string> {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const names = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  const paths = names.filter((name) => /\.tsx?$/.test(name)).map((name) => `${folder}/${name}`);
  return new Map(paths.sort().map((path) => [path, readFileSync(join(root, path), "utf8")]));
}

/** Throws if the text is not TypeScript. */
export function readFacts(path: string, text: string): SourceFacts {
  const { module, program, errors } = parseSync(path, text, { lang: path.endsWith(".tsx") ? "tsx" : "ts" });
  if (errors.length > 0) throw new Error(`${path} can't be parsed: ${errors[0]?.message}`);
  const exported = module.staticExports.flatMap(({ entries }) => entries);
  const ambient = new Set<string>();
  walk(program as unknown as Node, ambient);
  return {
    path,
    lines: text.split("\n").length - 1,
    imports: [
      ...module.staticImports.map(({ moduleRequest, entries }) => ({
        specifier: moduleRequest.value,
        names: entries.map(({ importName }) => importName.name ?? "*"),
        locals: entries.map(({ localName }) => localName.value),
      })),
      ...module.dynamicImports.map(({ moduleRequest: { start, end } }) => ({
        specifier: text.slice(start + 1, end - 1),
        names: ["*"],
        locals: [],
      })),
    ],
    reExports: exported.flatMap(({ moduleRequest }) => moduleRequest?.value ?? []),
    hasDefaultExport: exported.some(({ exportName }) => exportName.kind === "Default"),
    packsLines: /^\s*\.\.\.\{[^}]*\},?$/m.test(text),
    ambient: [...ambient],
  };
}

/** The part of a syntax node that `walk` reads. */
interface Node {
  readonly type: string;
  readonly computed?: boolean;
  readonly name?: string;
  readonly [field: string]: unknown;
}

const ambientNames = ["process", "console", "performance", "Date", "Math"];

function walk(node: Node, ambient: Set<string>): void {
  const use = ambientUse(node);
  if (use) ambient.add(use);
  for (const [field, value] of Object.entries(node)) {
    // A property's or a key's name is no use. The object of a use is a part of that use.
    if ((field === "property" || field === "key") && node.computed !== true) continue;
    if (field === "object" && use) continue;
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) walk(child, ambient);
  }
}

function ambientUse(node: Node): string | undefined {
  if (node.type === "NewExpression" && isNamed(node.callee, "Date")) {
    return Array.isArray(node.arguments) && node.arguments.length === 0 ? "new Date()" : undefined;
  }
  if (node.type === "MemberExpression") {
    const owner = ambientNames.find((name) => isNamed(node.object, name));
    return owner && isNode(node.property) ? `${owner}.${node.property.name ?? "*"}` : undefined;
  }
  // A use of the whole object, as in `const { env } = process`.
  return ["process", "console", "performance"].find((name) => isNamed(node, name));
}

function isNamed(value: unknown, name: string): boolean {
  return isNode(value) && value.type === "Identifier" && value.name === name;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}
