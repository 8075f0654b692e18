// `npm run release -- <version>`: makes a version out of what is unreleased, and builds all that is
// published of it from the tag, in a clean clone. docs/release.md says how it is used.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const root = fileURLToPath(new URL("..", import.meta.url));
const out = join(root, "release");
const sumsName = "SHA256SUMS";
const outputBytesMax = 64 * 1024 * 1024;

/** What ends the program, in words. */
class Stopped extends Error {}

if (import.meta.main) {
  try {
    main();
  } catch (thrown) {
    if (!(thrown instanceof Stopped)) throw thrown;
    console.error(`No release: ${thrown.message}`);
    process.exitCode = 1;
  }
}

function main(): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      "no-image": { type: "boolean", default: false },
      build: { type: "string", multiple: true, default: [] },
    },
  });
  const [version = ""] = positionals;
  if (positionals.length !== 1 || !/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(version))
    throw new Stopped("give one version, like `npm run release -- 0.2.0`.");
  const buildah = values["no-image"] ? undefined : values.build;
  if (buildah && !runs("buildah", "--version"))
    throw new Stopped(
      "the image needs buildah, and there is none here: install it, or leave it out by --no-image.",
    );
  const tag = `v${version}`;
  if (runs("git", "-C", root, "rev-parse", "--verify", "--quiet", `refs/tags/${tag}`))
    console.log(`${tag} is there already, so it is built once more.`);
  else mark(version, tag);
  build(version, tag, buildah);
}

/** Writes the version into the changelog and wherever it stands, commits that, and tags it. */
function mark(version: string, tag: string): void {
  if (git(root, "status", "--porcelain") !== "")
    throw new Stopped("there are changes that are not committed. Commit them, or put them aside.");
  const path = join(root, "CHANGELOG.md");
  const today = new Date().toISOString().slice(0, 10);
  writeFileSync(path, releasedChangelog(readFileSync(path, "utf8"), version, today));
  const quiet = ["--no-git-tag-version", "--allow-same-version", "--ignore-scripts"];
  run(root, "npm", "version", version, ...quiet, "--workspaces-update=false");
  for (const name of globSync(["compose.yaml", "docs/*.md", "deploy/**/*.yaml"], { cwd: root })) {
    const text = readFileSync(join(root, name), "utf8");
    const tagged = text.replace(/\bkeyrun:\d[\w.-]*/g, `keyrun:${version}`);
    // The chart has it in two lines.
    writeFileSync(join(root, name), tagged.replace(/^(version|appVersion): .*$/gm, `$1: ${version}`));
  }
  git(root, "commit", "--quiet", "--all", "-m", `Release ${version}`);
  git(root, "tag", "-a", tag, "-m", `Keyrun ${version}`);
}

/** The changelog in which what was unreleased is the version's. Throws where that is nothing. */
export function releasedChangelog(text: string, version: string, day: string): string {
  const head = "\n## [Unreleased]\n";
  const [before = "", rest] = text.split(head);
  if (rest === undefined) throw new Stopped("CHANGELOG.md has no part `## [Unreleased]`.");
  const [unreleased = ""] = rest.split(/^## \[/m);
  if (!/^- /m.test(unreleased)) throw new Stopped("nothing stands under *Unreleased* in CHANGELOG.md.");
  const tagged = before.replace(/ There is no tagged release yet\..*$/m, "");
  return `${tagged}${head}\n## [${version}] - ${day}\n${rest}`;
}

/** Builds what is published, and compares it with what an earlier build of the tag has left. */
function build(version: string, tag: string, buildah: readonly string[] | undefined): void {
  const work = mkdtempSync(join(tmpdir(), "keyrun-release-"));
  try {
    const clone = join(work, "clone");
    git(
      work,
      "-c",
      "advice.detachedHead=false",
      "clone",
      "--quiet",
      "--depth=1",
      "--branch",
      tag,
      `${pathToFileURL(root)}`,
      clone,
    );
    const commit = git(clone, "rev-parse", "HEAD");
    const seconds = Number(git(clone, "log", "-1", "--format=%ct"));
    process.env.SOURCE_DATE_EPOCH = String(seconds);
    const made = join(work, "release");
    mkdirSync(made);
    run(clone, "npm", "ci", "--no-audit", "--no-fund");
    const sbom = run(clone, "npm", "sbom", "--sbom-format", "cyclonedx", "--omit", "dev");
    writeFileSync(join(made, `keyrun-${version}.cdx.json`), datedSbom(sbom, commit, seconds));
    run(clone, "npm", "pack", "--pack-destination", made);
    if (buildah) buildImage({ clone, made, version, commit, seconds, more: buildah });
    writeFileSync(join(made, sumsName), sumsOf(made));
    publish(made, version);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The bill of materials with a number and a time that are the commit's own, not this run's. */
export function datedSbom(json: string, commit: string, seconds: number): string {
  const sbom = JSON.parse(json);
  // A UUID of version 8 (RFC 9562, 5.8): what is in it is ours.
  const hex = createHash("sha256").update(commit).digest("hex");
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`];
  sbom.serialNumber = `urn:uuid:${[...parts, hex.slice(20, 32)].join("-")}`;
  sbom.metadata.timestamp = new Date(seconds * 1_000).toISOString();
  return `${JSON.stringify(sbom, undefined, 2)}\n`;
}

interface Image {
  readonly clone: string;
  readonly made: string;
  readonly version: string;
  readonly commit: string;
  readonly seconds: number;
  /** More arguments of buildah, such as another base. */
  readonly more: readonly string[];
}

function buildImage({ clone, made, version, commit, seconds, more }: Image): void {
  const base = baseOf(clone, more);
  const labels = {
    title: "Keyrun",
    description: JSON.parse(readFileSync(join(clone, "package.json"), "utf8")).description,
    version,
    revision: commit,
    created: new Date(seconds * 1_000).toISOString(),
    "base.name": base.name,
    ...(base.digest && { "base.digest": base.digest }),
  };
  const name = `localhost/keyrun:${version}`;
  const labelled = Object.entries(labels).map(
    ([key, text]) => `--label=org.opencontainers.image.${key}=${text}`,
  );
  const pinned = base.digest ? [`--build-arg=BASE=${base.name}@${base.digest}`] : [];
  // Docker's format, because the other one has no place for the health check.
  const same = ["--format=docker", `--timestamp=${seconds}`, "--tag", name];
  run(clone, "buildah", "build", ...same, ...labelled, ...more, ...pinned, ".");
  const archive = join(clone, "image.tar");
  run(clone, "buildah", "push", "--quiet", name, `docker-archive:${archive}:${name}`);
  writeArchive(archive, join(made, `keyrun-${version}-image.tar`), seconds);
}

/**
 * The archive without what differs each time: buildah writes the id of the container in which it
 * built into the image, and the order and the old forms of an archive are its own.
 */
function writeArchive(archive: string, target: string, seconds: number): void {
  const folder = mkdtempSync(join(dirname(archive), "image-"));
  run(folder, "tar", "--extract", "--file", archive);
  const [image] = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8"));
  const { container: _, ...config } = JSON.parse(readFileSync(join(folder, image.Config), "utf8"));
  const text = JSON.stringify(config);
  const Config = `${createHash("sha256").update(text).digest("hex")}.json`;
  writeFileSync(join(folder, Config), text);
  writeFileSync(join(folder, "manifest.json"), JSON.stringify([{ ...image, Config }]));
  const owners = ["--owner=0", "--group=0", "--numeric-owner", "--mode=644", `--mtime=@${seconds}`];
  run(folder, "tar", "--create", "--file", target, ...owners, "manifest.json", Config, ...image.Layers);
}

/** The image's base, with its digest where a registry tells it. */
function baseOf(clone: string, more: readonly string[]): { name: string; digest?: string } {
  const given = more.flatMap((each) => /^--build-arg=BASE=(.+)$/.exec(each)?.[1] ?? []).at(-1);
  const name = given ?? /^ARG BASE=(.+)$/m.exec(readFileSync(join(clone, "Dockerfile"), "utf8"))?.[1] ?? "";
  if (name.startsWith("localhost/") || name.includes("@")) return { name };
  run(clone, "buildah", "pull", "--quiet", name);
  return { name, digest: run(clone, "buildah", "images", "--format", "{{.Digest}}", name).trim() };
}

function sumsOf(folder: string): string {
  const lines = readdirSync(folder)
    .sort()
    .map((name) => {
      return `${createHash("sha256")
        .update(readFileSync(join(folder, name)))
        .digest("hex")}  ${name}\n`;
    });
  return lines.join("");
}

/** Puts the files into `release/`. Refuses where it holds others of the same names. */
function publish(made: string, version: string): void {
  mkdirSync(out, { recursive: true });
  const names = readdirSync(made).filter((name) => name !== sumsName);
  const others = names.filter(
    (name) =>
      existsSync(join(out, name)) && !readFileSync(join(out, name)).equals(readFileSync(join(made, name))),
  );
  if (others.length > 0) {
    cpSync(made, join(out, "again"), { recursive: true });
    throw new Stopped(
      `not the same bytes as in release/: ${others.join(", ")}. What was made now is in release/again. Find out why, or remove what is in release/.`,
    );
  }
  for (const name of [...names, sumsName]) copyFileSync(join(made, name), join(out, name));
  console.log(
    `${readFileSync(join(out, sumsName), "utf8")}\nKeyrun ${version} is in release/. Publish it: docs/release.md.`,
  );
}

function git(folder: string, ...args: string[]): string {
  return run(folder, "git", ...args).trim();
}

/** What the program prints on standard output. What it complains of is seen as it comes. */
function run(cwd: string, program: string, ...args: string[]): string {
  const done = spawnSync(program, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: outputBytesMax,
  });
  if (done.status !== 0) throw new Stopped(`\`${program} ${args[0]}\` failed.\n${done.stdout.slice(-2_000)}`);
  return done.stdout;
}

function runs(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: "ignore" }).status === 0;
}
