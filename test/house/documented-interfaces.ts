import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { readFacts } from "../harness/source-facts.ts";

/**
 * Finds where a source file uses a package or Node beyond its documented interface: an import of a
 * package's insides, an assignment to something of a library or of Node, a private property, or a
 * switch of the allocator or of V8. Each finding names the file and what to do instead.
 */
export function findUndocumented(sources: ReadonlyMap<string, string>): string[] {
  return [...sources].flatMap(([path, text]) => {
    const imports = readFacts(path, text).imports.filter(({ specifier }) => !/^[.#]/.test(specifier));
    const locals = imports.flatMap((each) => each.locals);
    // Messages of Protobuf are data.
    const makers = imports.filter(({ specifier }) => !specifier.startsWith("@bufbuild/protobuf"));
    const made = madeBy(
      makers.flatMap((each) => each.locals),
      text,
    );
    const others = [...locals, ...made];
    const assigned = Array.from(
      text.matchAll(/\b(?:Object\.assign|Reflect\.set)\((\w+)\b|^\s*(\w+)(?:\.\w+)+ =(?!=)/gm),
      ([, name, owner]) => name ?? owner,
    );
    return [
      ...imports.flatMap(({ specifier }) => insideOf(specifier) ?? []).map((said) => `${path} ${said}`),
      ...findSwitches(path, withoutComments(text)),
      ...assigned
        .filter((name = "") => others.includes(name))
        .map((name) => `${path} assigns to ${name}, which is another's: wrap it, or take its options.`),
    ];
  });
}

/** The variables that hold what one of these makes. */
function madeBy(makers: readonly string[], text: string): string[] {
  const made = text.matchAll(/\b(?:const|let) (\w+)(?:: [^=]+)? = (?:await )?(?:new )?(\w+)\b/g);
  return Array.from(made).flatMap(([, name = "", maker = ""]) => (makers.includes(maker) ? [name] : []));
}

/** The same by words alone, in a file of any language. */
export function findSwitches(path: string, text: string): string[] {
  return patterns.flatMap(({ use, instead }) =>
    Array.from(text.matchAll(use), ([found]) => `${path} has ${found}: ${instead}`),
  );
}

const patterns: readonly { readonly use: RegExp; readonly instead: string }[] = [
  { use: /\b\w+\.prototype(\.\w+)? =(?!=)/g, instead: "a prototype is its owner's; wrap what it makes." },
  {
    use: /\bObject\.create\((?!null)[^)]*\)/g,
    instead: "an object that pretends to be another; make one of its own.",
  },
  {
    use: /(?<!\bthis)\.(write|push|pause|resume|end|emit|destroy|on|once|off|tag|emitWarning|setTimeout) =(?!=)/g,
    instead: "a method is its owner's; call another one.",
  },
  { use: /\bgetOwnPropertySymbols\b|\bSymbol\.for\(/g, instead: "a symbol of another is private." },
  { use: /(?<!\bsuper)(?<!\bthis)\._(?!id\b)[a-z]\w*/g, instead: "a name with an underscore is private." },
  { use: /\bhttpAllowHalfOpen\b/g, instead: "Node documents no such option." },
  {
    use: /\bsetFlagsFromString\b|\bnew Script\(|\bmalloc_trim\b/g,
    instead: "V8 and the allocator are left alone.",
  },
  { use: /"node:ffi"/g, instead: "no native call." },
  { use: /\bMALLOC_\w+/g, instead: "the allocator is left alone." },
];

/** Their interface says "internal" by a folder's name. */
const insides = /\/(lib|build|dist|src|internal)\//;

/** What is wrong with an import of a package; undefined for its documented entries. */
function insideOf(specifier: string): string | undefined {
  if (specifier.startsWith("node:")) return undefined;
  const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
  if (specifier === name) return undefined;
  const isEntry = !insides.test(`${specifier}/`) && `.${specifier.slice(name.length)}` in exportsOf(name);
  return isEntry ? undefined : `imports ${specifier}: import ${name}, or an entry that it exports.`;
}

function exportsOf(name: string): object {
  const { exports } = JSON.parse(readFileSync(join(folderOf(name), "package.json"), "utf8"));
  return typeof exports === "object" && exports !== null ? exports : {};
}

/** Where the package is, whatever entries it exports. */
function folderOf(name: string): string {
  const paths = createRequire(import.meta.url).resolve.paths(name) ?? [];
  const found = paths.map((path) => join(path, name)).find((path) => existsSync(join(path, "package.json")));
  if (!found) throw new Error(`the package ${name} is not installed`);
  return found;
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "");
}
