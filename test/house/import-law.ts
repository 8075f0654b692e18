import { importedPath, readFacts, type SourceFacts } from "../harness/source-facts.ts";

/**
 * The stages of the source, in the order of a request. A stage imports only from the lines above
 * its own. A new folder or file directly in `src/`, and a new package, needs a line here.
 */
const stages = [
  ["bin", "gen"],
  ["bounds"],
  ["refusal"],
  ["base"],
  ["log"],
  ["settings"],
  ["metrics"],
  ["http"],
  ["quota"],
  ["auth", "cache"],
  ["limit"],
  ["fleet"],
  ["audit"],
  ["teams"],
  ["apps"],
  ["keys"],
  ["usage"],
  ["admission"],
  ["service-tokens"],
  ["packages/transcode"],
  ["run"],
  ["sign-in"],
  ["rest", "rpc"],
  ["store"],
  ["server"],
  ["traces"],
  ["app"],
  ["serve", "cli"],
  ["main"],
];

/** Where a package may be imported. Other code uses it through the exports of these places. */
const packagePlaces: Readonly<Record<string, readonly string[]>> = {
  mongodb: ["src/store/mongo/"],
  "node:sqlite": ["src/store/sqlite/"],
  "lru-cache": ["src/cache/"],
  "@connectrpc/connect-node": ["src/rpc/"],
  "@grpc/grpc-js": ["src/run/"],
  undici: ["src/run/"],
  "node:http": ["src/server/", "src/cli/", "packages/"],
  "node:http2": ["src/server/", "src/run/"],
  commander: ["src/cli/"],
  "string-width": ["src/cli/"],
  pino: ["src/log/log.ts"],
  "pino-pretty": ["src/log/terminal-log.ts"],
  "@prometheus-io/client": ["src/metrics/"],
  "openid-client": ["src/sign-in/"],
  redis: ["src/limit/redis/"],
  "@opentelemetry/api": ["src/traces/"],
};

/** Where the clock, environment and console may be used. Other code takes them as arguments. */
const ambientPlaces: readonly { readonly use: RegExp; readonly places: readonly string[] }[] = [
  { use: /^(Date\.now|performance(\..*)?|new Date\(\))$/, places: ["src/base/clock.ts"] },
  { use: /^process(\..*)?$/, places: ["src/main.ts", "src/serve.ts", "src/cli/"] },
  { use: /^console(\..*)?$/, places: ["src/log/log.ts", "src/cli/"] },
  { use: /^Math\.random$/, places: [] },
];

/** Where randomness may be imported. Code that makes secrets and ids takes it as an argument. */
const randomPlaces = [
  "src/app/open.ts",
  "src/app/services.ts",
  "src/app/service-tokens.ts",
  "src/app/listeners.ts",
  "src/app/sign-in.ts",
  "src/store/copy-data-folder.ts",
  "src/store/open-stores.ts",
  "src/cli/secrets.ts",
];

/** Says who may open a store: the only code beside the ports that a store may import. */
const codeForStores = ["src/fleet/alone.ts"];

const fileLinesMax = 400;
const emptyNames = /(^|\/)(utils?|helpers?|common|types|misc|index)\.ts$/;

/** The violations in these files (text by path): sentences with the file and what to do instead. */
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
  return file.imports.flatMap(({ specifier }) => {
    const target = importedPath(file.path, specifier);
    if (target === undefined) return [];
    const stage = stageOf(target);
    const edge = `${file.path} imports ${target}`;
    if (own === "store" && storeReaches(target)) {
      return [`${edge}: a store sees only the ports.`];
    }
    if (own.startsWith("packages/") && stage !== own) {
      return [`${edge}: a package knows nothing of Keyrun; hand it in.`];
    }
    if (crossesStores(file.path, target)) return [`${edge}: one store knows nothing of the other.`];
    if (stage === own || (rankOf(stage) >= 0 && rankOf(stage) < rank)) return [];
    return [`${edge}: ${own} stands before ${stage}; take what it needs as an argument.`];
  });
}

/** The folder in `src/`, or the file directly in it. A package is one stage. */
function stageOf(path: string): string {
  const [top, ...rest] = path.split("/");
  if (top === "packages") return `packages/${rest[0]}`;
  if (top !== "src") return top ?? "";
  return (rest[0] ?? "").replace(/\.ts$/, "");
}

function rankOf(stage: string): number {
  return stages.findIndex((line) => line.includes(stage));
}

function storeReaches(target: string): boolean {
  if (codeForStores.includes(target)) return false;
  const isPorts = /^src\/(limit|teams|apps|keys|usage|service-tokens|run|fleet|sign-in)\//.test(target);
  return isPorts && !target.endsWith("-store.ts");
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

function formViolations({ path, lines, reExports, hasDefaultExport, packsLines }: SourceFacts): string[] {
  return [
    ...(emptyNames.test(path) ? [`${path}: name it after what it holds.`] : []),
    ...(lines > fileLinesMax
      ? [`${path} has ${lines} lines, over ${fileLinesMax}: split it by reason.`]
      : []),
    ...(packsLines ? [`${path} spreads a literal to pack lines: write its members.`] : []),
    ...(hasDefaultExport ? [`${path} has a default export: give it a name.`] : []),
    ...reExports.map((from) => `${path} exports from ${from}: let its users import it from there.`),
  ];
}

/** Circles of imports. A circle of types is one, too: neither file can be read before the other. */
function cycleViolations(files: readonly SourceFacts[]): string[] {
  const targets = new Map(
    files.map(({ path, imports }) => [
      path,
      imports.map(({ specifier }) => importedPath(path, specifier) ?? ""),
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
