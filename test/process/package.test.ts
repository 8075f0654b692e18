import { execFile } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { basename, delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tempFolders } from "../harness/closed-at-end.ts";
import { readStories } from "../harness/doc-page.ts";
import { runStory } from "../harness/doc-story.ts";
import { repository } from "../harness/keyrun-process.ts";

const folders = tempFolders();
const node = dirname(process.execPath);
const env = { PATH: `${node}${delimiter}/usr/local/bin:/usr/bin:/bin`, npm_config_offline: "true" };
let place: string;
let tarball: string;

const run = (program: string, args: readonly string[], cwd: string, settings = {}) =>
  promisify(execFile)(program, args, { cwd, env: { ...env, HOME: place, ...settings } });

/** The files of the clone, as links. To pack changes its manifest, and other tests read that. */
const aside = join(repository, "artifacts", `package-${process.pid}`);

beforeAll(async () => {
  place = folders.create();
  const before = await readFile(join(repository, "package.json"), "utf8");
  const files = "git ls-files -z --cached --others --exclude-standard | xargs -0 cp -l --parents -t";
  await run("sh", ["-c", `mkdir -p "$0" && { ${files} "$0"; cp -al node_modules "$0"; }`, aside], repository);
  await run("npm", ["pack", "--pack-destination", place], aside);
  expect(await readFile(join(aside, "package.json"), "utf8")).toBe(before);
  const { version } = JSON.parse(before);
  tarball = join(place, `keyrun-${version}.tgz`);
}, 300_000);
afterAll(async () => {
  await rm(aside, { recursive: true, force: true });
});

test("installed where nothing else is but Node, it does what the quick start says", {
  timeout: 600_000,
}, async () => {
  const { stderr } = await run("npm", ["install", "-g", "--prefix", place, tarball], place);
  expect(stderr).toBe("");
  const folder = folders.create();
  const readme = await readFile(join(repository, "README.md"), "utf8");
  const story = readStories(readme).find(({ title }) => title === "Quick start");
  const asInstalled = (page: string) =>
    page.replaceAll("npm start", "keyrun serve").replaceAll("./keyrun", "keyrun");
  // The start can't know in which folder the next commands are typed.
  const asSaid = (page: string) => asInstalled(page).replace("$(", `$(KEYRUN_DATA_DIR=${folder}/data `);
  const acts = story?.acts.map((act) =>
    act.kind === "end"
      ? act
      : { ...act, commands: asInstalled(act.commands), ...(act.prints && { prints: asSaid(act.prints) }) },
  );
  expect(acts?.length).toBeGreaterThan(2);
  const programs = [join(place, "bin"), node].join(delimiter);
  await runStory(acts ?? [], { folder, isClone: false, programs });
});

test("npx runs it with the sizes of the heap", { timeout: 120_000 }, async () => {
  const told = "console.log(JSON.stringify(process.execArgv))";
  const { stdout } = await run("npx", ["--yes", `./${basename(tarball)}`, "--version"], place, {
    NODE_OPTIONS: `--import=data:text/javascript,${told}`,
  });
  const flags = ["--max-semi-space-size=8", "--initial-old-space-size=100"];
  expect(stdout).toContain(`${JSON.stringify(flags)}\n`);
});

test("it has the lines of the source, and nothing that is only for a clone", async () => {
  await run("tar", ["-xzf", tarball], place);
  const packed = join(place, "package");
  const lines = async (path: string) => (await readFile(path, "utf8")).split("\n").length;
  for (const path of globSync("{src,gen,packages/transcode/{src,gen}}/**/*.ts", { cwd: repository })) {
    const script = join(packed, "dist", path.replace(/ts$/, "js"));
    expect([path, await lines(script)]).toEqual([path, await lines(join(repository, path))]);
  }
  const { devDependencies } = JSON.parse(await readFile(join(repository, "package.json"), "utf8"));
  const isThere = (path: string) => existsSync(join(packed, path));
  expect(["test", "src", "web", "dist/clone.json"].filter(isThere)).toEqual([]);
  expect(
    ["docs/api.md", "proto/keyrun/v1/run_service.proto", "dist/web/dist/index.html"].every(isThere),
  ).toBe(true);
  const brought = Object.keys(devDependencies).filter((name) => isThere(`node_modules/${name}`));
  // A dependency of gRPC's library names it, for its types.
  expect(brought).toEqual(["@types/node"]);
});
