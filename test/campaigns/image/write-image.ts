// Builds the image as an operator does, and writes its files and description into a folder:
//   node write-image.ts <cache> <folder>
// Everything comes from Debian and from npm, by the ways that this machine has: no registry of
// images is asked. Without a daemon; a lock around it lets one process build at a time.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { repository } from "../../harness/keyrun-process.ts";
import { type BuiltImage, builderVersion, contextFiles } from "./built-image.ts";

const suite = "trixie";
/** What the slim images of Debian leave out, too. */
const excluded = ["doc", "groff", "info", "linda", "lintian", "locale", "man"];
const npmVersion = "11.19.1";

const [cache = "", folder = ""] = process.argv.slice(2);
if (!existsSync(join(folder, "image.json"))) await build();

async function build(): Promise<void> {
  // What an earlier state of the files left, or a build that was ended in the middle.
  for (const name of readdirSync(cache)) {
    if (name !== "lock" && !name.startsWith("base-")) rmSync(join(cache, name), { recursive: true });
  }
  mkdirSync(folder);
  const work = mkdtempSync(join(tmpdir(), "keyrun-image-"));
  try {
    const image = buildIn(work);
    writeFileSync(join(folder, "image.json.new"), JSON.stringify(image));
    renameSync(join(folder, "image.json.new"), join(folder, "image.json"));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function buildIn(work: string): BuiltImage {
  const buildah = (...args: string[]) =>
    run("buildah", [
      ...["--root", join(work, "storage"), "--runroot", join(work, "run")],
      ...["--storage-driver", "vfs", ...args],
    ]);
  const bud = (tag: string, context: string, ...args: string[]) =>
    buildah(
      "build",
      "--isolation",
      "chroot",
      "--format",
      "docker",
      ...args,
      "-t",
      `localhost/${tag}`,
      context,
    );
  const rootfsOf = (tag: string) => {
    const container = buildah("from", "--name", `${tag}-files`, `localhost/${tag}`);
    return { container, path: buildah("mount", container) };
  };

  bud("base", baseContext(work));
  bud("builder", builderContext(work));
  const canary = randomBytes(16).toString("hex");
  const { context, npmrc, authority, npmCache } = imageContext(work, canary);
  bud(
    ...(["keyrun", context, "--volume", `${npmCache}:/npm-cache`] as const),
    ...["--build-arg", "BASE=localhost/base", "--build-arg", "BUILDER=localhost/builder"],
    ...["--secret", `id=npmrc,src=${npmrc}`, "--secret", `id=npm-ca,src=${authority}`],
  );
  bud("servers", serversContext(work));

  const inspected = JSON.parse(buildah("inspect", "--type", "image", "localhost/keyrun"));
  const keyrun = rootfsOf("keyrun");
  const base = rootfsOf("base");
  const started = ["run", "--isolation", "chroot", keyrun.container, "--", "sh", "-c"];
  const ran = buildah(...started, "id -u; node --version; keyrun --version").split("\n");
  const sizes = { bytes: sizeOf(keyrun.path), baseBytes: sizeOf(base.path) };
  // Renamed, not copied: the storage goes away with the folder of work.
  const [rootfs, serversRootfs] = [join(folder, "rootfs"), join(folder, "servers")];
  run("mv", [keyrun.path, rootfs]);
  run("mv", [rootfsOf("servers").path, serversRootfs]);
  return { rootfs, serversRootfs, config: inspected.Docker.config, ran, ...sizes, canary };
}

/** Debian, as mmdebstrap makes it. It is kept: it does not depend on the files of this tree. */
function baseContext(work: string): string {
  const context = join(work, "base");
  mkdirSync(context);
  const kept = join(cache, `base-${suite}.tar`);
  if (!existsSync(kept)) {
    const without = excluded.map((name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`);
    const made = `${kept}.new.tar`;
    run("mmdebstrap", ["--variant=minbase", ...without, suite, made]);
    renameSync(made, kept);
  }
  copyFileSync(kept, join(context, "base.tar"));
  writeFileSync(join(context, "Dockerfile"), "FROM scratch\nADD base.tar /\n");
  return context;
}

/** Debian with npm, libatomic and the Node that the Dockerfile names, like Docker's image of it. */
function builderContext(work: string): string {
  const context = join(work, "builder");
  const local = join(context, "local");
  const install = "apt-get update -qq && apt-get install -y -qq --no-install-recommends libatomic1";
  const name = `node-${process.platform}-${process.arch}`;
  run("npm", ["install", "--prefix", join(work, "node"), "--no-save", `${name}@${builderVersion()}`]);
  mkdirSync(join(local, "bin"), { recursive: true });
  copyFileSync(join(work, "node/node_modules", name, "bin/node"), join(local, "bin/node"));
  run("npm", ["install", "--global", "--prefix", local, `npm@${npmVersion}`]);
  writeFileSync(join(context, "Dockerfile"), `FROM localhost/base\nRUN ${install}\nCOPY local /usr/local\n`);
  return context;
}

/** The servers that stand beside Keyrun in a fleet, of the same Debian. */
function serversContext(work: string): string {
  const context = join(work, "servers");
  mkdirSync(context);
  const install =
    "apt-get update -qq && apt-get install -y -qq --no-install-recommends haproxy valkey-server";
  writeFileSync(join(context, "Dockerfile"), `FROM localhost/base\nRUN ${install}\n`);
  return context;
}

/** The repository, with files beside the sources that must not get into an image. */
function imageContext(work: string, canary: string) {
  const context = join(work, "context");
  const strays = [
    ...[".env", ".git/config", "data/secret", "keyrun-secret", "secrets/keyrun-secret", "tls/key.pem"],
    ...["web/.env.local", "src/.env", "bin/.npmrc", "node_modules/left/index.js", "web/dist/left.js"],
  ];
  for (const path of [...contextFiles(), ...strays])
    mkdirSync(dirname(join(context, path)), { recursive: true });
  for (const path of contextFiles()) {
    execFileSync("cp", ["--preserve=mode", join(repository, path), join(context, path)]);
  }
  for (const path of strays) writeFileSync(join(context, path), canary);

  // The build asks the registry that this machine asks, and first what npm has kept here.
  const [registry, cafile, npmCache] = ["registry", "cafile", "cache"].map((name) =>
    run("npm", ["config", "get", name]),
  );
  const from = [cafile ?? "null", process.env.NODE_EXTRA_CA_CERTS ?? "null"].find((path) => path !== "null");
  const lines = [`; ${canary}`, `registry=${registry}`, "cache=/npm-cache", "prefer-offline=true"];
  const [npmrc, authority] = [join(work, "npmrc"), join(work, "npm-ca.pem")];
  writeFileSync(npmrc, [...lines, ...(from ? ["cafile=/run/npm-ca.pem"] : []), ""].join("\n"));
  writeFileSync(authority, from ? readFileSync(from) : "");
  return { context, npmrc, authority, npmCache: npmCache ?? "" };
}

function sizeOf(path: string): number {
  return Number.parseInt(run("du", ["--summarize", "--bytes", "--one-file-system", path]), 10);
}

function run(program: string, args: readonly string[]): string {
  const options = { encoding: "utf8", maxBuffer: 64_000_000, cwd: repository } as const;
  return execFileSync(program, args, { ...options, stdio: ["ignore", "pipe", "inherit"] }).trim();
}
