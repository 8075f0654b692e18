import { execFileSync, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { repository } from "../../harness/keyrun-process.ts";

/** The image, as buildah built it from the Dockerfile of this working tree. */
export interface BuiltImage {
  /** Its files, as one folder. */
  readonly rootfs: string;
  /** The files of Debian with servers of Debian in them, in which other services can run. */
  readonly serversRootfs: string;
  readonly config: ImageConfig;
  /** What `buildah run` printed for its user, its Node and its Keyrun, as the image's own user. */
  readonly ran: readonly string[];
  /** Sums of the sizes of all files. */
  readonly bytes: number;
  readonly baseBytes: number;
  /** A text that stood in files beside the sources, and in the secrets of the build. */
  readonly canary: string;
}

/** The part of Docker's description of an image that these tests read. */
export interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly WorkingDir: string;
  readonly Volumes: Readonly<Record<string, object>>;
  readonly ExposedPorts: Readonly<Record<string, object>>;
  readonly Healthcheck: { readonly Test: readonly string[] };
}

/** Why images can't be built or run here; undefined if they can. */
export function imageMissing(): string | undefined {
  if (process.getuid?.() !== 0) return "only root can mount the files of an image";
  const lacks = ["buildah", "mmdebstrap", "unshare", "nsenter", "ip", "flock", "npm"].filter(
    (program) => spawnSync("sh", ["-c", `command -v ${program}`], { stdio: "ignore" }).status !== 0,
  );
  if (lacks.length > 0) return `not installed: ${lacks.join(", ")}`;
  const space = ["--mount", "--pid", "--ipc", "--net", "--fork", "true"];
  const unshared = spawnSync("unshare", space, { stdio: "ignore" }).status === 0;
  return unshared ? undefined : "this machine allows no namespaces";
}

const script = fileURLToPath(new URL("write-image.ts", import.meta.url));

/**
 * Builds the image, or takes the one that was built from the same files before. Of several test
 * files that ask at once, one builds.
 */
export async function builtImage(): Promise<BuiltImage> {
  const cache = join(repository, "node_modules/.cache/keyrun-image");
  mkdirSync(cache, { recursive: true });
  const folder = join(cache, contextHash());
  const description = join(folder, "image.json");
  const args = ["--close", join(cache, "lock"), process.execPath, script, cache, folder];
  const child = spawn("flock", args, { cwd: repository, stdio: ["ignore", "pipe", "pipe"] });
  let words = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      words += text;
    });
  }
  const code = await new Promise((resolve) => child.once("close", resolve));
  if (code !== 0 || !existsSync(description)) {
    throw new Error(`The image could not be built:\n${words.slice(-4_000)}`);
  }
  return JSON.parse(readFileSync(description, "utf8")) as BuiltImage;
}

/** The version of the Node that the Dockerfile builds with, and leaves in the image. */
export function builderVersion(): string {
  const dockerfile = readFileSync(join(repository, "Dockerfile"), "utf8");
  const version = /^ARG BUILDER=.*\/node:([\d.]+)-/m.exec(dockerfile)?.[1];
  if (version === undefined) throw new Error("The Dockerfile names no version of its builder's Node.");
  return version;
}

/** What the image is built from: a change of any file makes another image. */
function contextHash(): string {
  const hash = createHash("sha256");
  for (const path of contextFiles()) {
    hash.update(`${path}\0`);
    hash.update(readFileSync(join(repository, path)));
  }
  return hash.digest("hex").slice(0, 16);
}

const parts = [
  ...["Dockerfile", ".dockerignore", ".npmrc", "package.json", "package-lock.json", "keyrun"],
  ...[
    "tsconfig.json",
    "bin",
    "gen",
    "packages",
    "src",
    "web",
    "docs/api.md",
    "docs/errors.md",
    "SECURITY.md",
  ],
  "test/campaigns/image/write-image.ts",
];

/** The files that git knows, or would take. */
export function contextFiles(): readonly string[] {
  const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ...parts];
  const files = execFileSync("git", list, { cwd: repository, encoding: "utf8" }).split("\0");
  return files.filter((path) => path !== "" && existsSync(join(repository, path))).sort();
}
