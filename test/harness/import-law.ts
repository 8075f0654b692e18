import { posix } from "node:path";
import { readFacts, type SourceFacts } from "./source-facts.ts";

/**
 * The stages of the source, in the order in which a request passes them. A stage imports only what stands on a line
 * above its own. Whoever adds a folder or a file at the top gives it a line here.
 */
const stages = [
  ["gen", "clock", "config", "reasons", "loopback-host"],
  ["error"],
  ["error-details", "log", "metrics", "fields", "cache", "settings", "data-folder"],
  ["auth"],
  ["service-methods"],
  ["limit"],
  ["fleet", "teams"],
  ["apps"],
  ["keys"],
  ["run"],
  ["edge/transcode"],
  ["edge"],
  ["signin"],
  ["store"],
  ["server"],
  ["rpc"],
  ["seed", "secret-files", "start-words"],
  ["app/"],
  ["app"],
  ["cli"],
  ["main"],
];

/** Where a package may be imported: elsewhere it is to be reached through what these places export. */
const packagePlaces: Readonly<Record<string, readonly string[]>> = {
  mongodb: ["src/store/mongo/"],
  "node:sqlite": ["src/store/sqlite/"],
  "lru-cache": ["src/cache/"],
  "@connectrpc/connect-node": ["src/rpc/", "src/server/", "src/cli/"],
  "@grpc/grpc-js": ["src/run/"],
  "node:http": ["src/server/", "src/rpc/", "src/run/", "src/cli/"],
  "node:http2": ["src/server/", "src/rpc/", "src/run/", "src/cli/"],
  commander: ["src/cli/"],
  pino: ["src/log.ts"],
  "@prometheus-io/client": ["src/metrics.ts"],
  "openid-client": ["src/signin/"],
  redis: ["src/limit/"],
};

/** Where the process's own clock, environment and console may be used: elsewhere they come in as arguments. */
const ambientPlaces: readonly { readonly use: RegExp; readonly places: readonly string[] }[] = [
  { use: /^(Date\.now|performance(\..*)?|new Date\(\))$/, places: ["src/clock.ts"] },
  { use: /^process(\..*)?$/, places: ["src/main.ts", "src/cli/"] },
  { use: /^console(\..*)?$/, places: ["src/log.ts", "src/cli/"] },
  { use: /^Math\.random$/, places: [] },
];

/** Where randomness may be named: who makes secrets and ids is given it from there. */
const randomPlaces = [
  "src/app.ts",
  "src/app/services.ts",
  "src/app/listeners.ts",
  "src/app/sign-in.ts",
  "src/store/open-stores.ts",
];

const fileLinesMax = 250;
const emptyNames = /(^|\/)(utils?|helpers?|common|types|misc|index)\.ts$/;

/** What breaks the law of `src/` in these files (text by path), a sentence each: which file, and what to do instead. */
export function findViolations(sources: ReadonlyMap<string, string>): string[] {
  const files = [...sources].map(([path, text]) => readFacts(path, text));
  return [
    ...files.flatMap((file) => [...orderViolations(file), ...placeViolations(file), ...formViolations(file)]),
    ...cycleViolations(files),
  ];
}

function orderViolations(file: SourceFacts): string[] {
  const own = stageOf(file.path);
  const rank = rankOf(own);
  if (rank < 0) return [`${file.path}: the law has no stage for it; give "${own}" a line in import-law.ts.`];
  return file.imports.flatMap(({ specifier, typeOnly }) => {
    const target = resolve(file.path, specifier);
    if (target === undefined) return [];
    const stage = stageOf(target);
    const told = `${file.path} imports ${target}`;
    if (own === "store" && storeReaches(target, typeOnly)) {
      return [`${told}: a store sees only the ports and their types.`];
    }
    if (own === "edge/transcode" && stage !== own && !target.startsWith("gen/google/")) {
      return [`${told}: the transcoder knows nothing of Keyrun; hand it in.`];
    }
    if (crossesStores(file.path, target)) return [`${told}: one store knows nothing of the other.`];
    if (stage === own || (rankOf(stage) >= 0 && rankOf(stage) < rank)) return [];
    return [`${told}: ${own} stands before ${stage}; take what it needs as an argument.`];
  });
}

/** The folder below `src/`, or the file at its top; `app/` is what `app.ts` is made of. */
function stageOf(path: string): string {
  const [top, ...rest] = path.split("/");
  if (top !== "src") return top ?? "";
  if (path.startsWith("src/edge/transcode/")) return "edge/transcode";
  if (path.startsWith("src/app/")) return "app/";
  return (rest[0] ?? "").replace(/\.ts$/, "");
}

function rankOf(stage: string): number {
  return stages.findIndex((line) => line.includes(stage));
}

/** The repo's path that a specifier means; undefined for a package. */
function resolve(from: string, specifier: string): string | undefined {
  if (specifier.startsWith("#")) return specifier.slice(1);
  return specifier.startsWith(".") ? posix.join(posix.dirname(from), specifier) : undefined;
}

function storeReaches(target: string, typeOnly: boolean): boolean {
  // The guard that a MongoDB store takes is the one thing that runs.
  if (target === "src/fleet/instance-guard.ts") return false;
  const isPorts = /^src\/(teams|apps|keys|fleet|signin)\//.test(target);
  return isPorts && !(typeOnly && target.endsWith("-store.ts"));
}

function crossesStores(from: string, target: string): boolean {
  const [own, other] = [from, target].map((path) => /^src\/store\/(sqlite|mongo)\//.exec(path)?.[1]);
  return own !== undefined && other !== undefined && own !== other;
}

function placeViolations(file: SourceFacts): string[] {
  const isIn = (places: readonly string[]) => places.some((place) => file.path.startsWith(place));
  const packages = file.imports.flatMap(({ specifier, names }) => {
    const places = packagePlaces[packageOf(specifier)];
    if (places && !isIn(places))
      return [`${file.path} imports ${specifier}, which is for ${places.join(", ")}.`];
    const random = specifier === "node:crypto" && names.some((name) => /^(\*|default|random.*)$/.test(name));
    return random && !isIn(randomPlaces)
      ? [`${file.path} imports randomness: take it as an argument, from ${randomPlaces.join(", ")}.`]
      : [];
  });
  const ambient = file.ambient.flatMap((use) =>
    ambientPlaces
      .filter((rule) => rule.use.test(use) && !isIn(rule.places))
      .map(
        ({ places }) =>
          `${file.path} uses ${use}: take it as an argument${places.length > 0 ? `, from ${places.join(", ")}` : ""}.`,
      ),
  );
  return [...packages, ...ambient];
}

function packageOf(specifier: string): string {
  const parts = specifier.split("/");
  return specifier.startsWith("@") ? parts.slice(0, 2).join("/") : (parts[0] ?? "");
}

function formViolations({ path, lines, reExports, hasDefaultExport }: SourceFacts): string[] {
  return [
    ...(emptyNames.test(path) ? [`${path}: name it after what it holds.`] : []),
    ...(lines > fileLinesMax
      ? [`${path} has ${lines} lines, over ${fileLinesMax}: split it by reason.`]
      : []),
    ...(hasDefaultExport ? [`${path} has a default export: give it a name.`] : []),
    ...reExports.map((from) => `${path} exports from ${from}: let its users import it from there.`),
  ];
}

/** Files that import one another, in a circle, by more than types. */
function cycleViolations(files: readonly SourceFacts[]): string[] {
  const targets = new Map(
    files.map(({ path, imports }) => [
      path,
      imports.filter(({ typeOnly }) => !typeOnly).map(({ specifier }) => resolve(path, specifier) ?? ""),
    ]),
  );
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (path: string, way: readonly string[]): void => {
    if (way.includes(path)) {
      found.push(`${[...way.slice(way.indexOf(path)), path].join(" → ")}: break the circle.`);
    } else if (!done.has(path)) {
      for (const target of targets.get(path) ?? []) visit(target, [...way, path]);
      done.add(path);
    }
  };
  for (const path of targets.keys()) visit(path, []);
  return found;
}
