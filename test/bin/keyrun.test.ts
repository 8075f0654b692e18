import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { repository } from "../harness/keyrun-process.ts";
import { describeWith, programsMissing } from "../harness/needs.ts";
import { findOldNode } from "./old-node.ts";

// The script in a clone of its own, before a small main.ts that tells what reached it.
const main = `
const [what, ...args] = process.argv.slice(2);
if (what === "stay") {
  setInterval(() => {}, 1_000);
  console.log("ready");
} else if (what === "flags") {
  console.log(JSON.stringify(process.execArgv));
} else {
  console.log(JSON.stringify({ pid: process.pid, node: process.execPath, folder: process.cwd(), args }));
  process.exitCode = 7;
}
`;
const oldNode = findOldNode();
/** Where npm puts the Node that Keyrun runs on. */
const place = `node_modules/node-linux-${process.arch}/bin/node`;
let folder: string;
let clone: string;
let children: ChildProcess[];

beforeEach(async () => {
  children = [];
  folder = await realpath(await mkdtemp(join(tmpdir(), "keyrun-script-")));
  clone = join(folder, "a clone");
  await mkdir(join(clone, "src"), { recursive: true });
  for (const part of ["bin", "keyrun"])
    await cp(join(repository, part), join(clone, part), { recursive: true });
  await writeFile(join(clone, "package.json"), '{"type":"module","engines":{"node": ">=24.15"}}');
  await writeFile(join(clone, "src/main.ts"), main);
  await install();
});

afterEach(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(folder, { recursive: true });
});

/** What `npm ci` leaves of packages and, on Linux, a Node. */
async function install() {
  await mkdir(join(clone, "node_modules/commander"), { recursive: true });
  await mkdir(dirname(join(clone, place)), { recursive: true });
  await symlink(process.execPath, join(clone, place));
}

/** Leaves the installed Node without a library that it needs, as far as a shell can see. */
async function breakNode() {
  await rm(join(clone, place));
  await writeFile(join(clone, place), "#!/nowhere/ld-linux\n");
  await chmod(join(clone, place), 0o755);
}

interface Call {
  readonly script?: string;
  readonly cwd?: string;
  readonly path?: string;
}

function start(args: readonly string[], { script = join(clone, "keyrun"), cwd = folder, path }: Call = {}) {
  const child = spawn(script, args, { cwd, env: { PATH: path ?? "/usr/bin:/bin" } });
  children.push(child);
  return child;
}

async function run(args: readonly string[], call?: Call) {
  const child = start(args, call);
  const [[code], stdout, stderr] = await Promise.all([
    once(child, "exit"),
    text(child.stdout),
    text(child.stderr),
  ]);
  return { pid: child.pid, code, stdout, stderr };
}

test("it becomes main.ts on the installed Node, with the caller's folder, arguments and exit status", async () => {
  const { pid, code, stdout, stderr } = await run(["tell", "a b", "", "--c=*"]);
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual({ pid, node: process.execPath, folder, args: ["a b", "", "--c=*"] });
  expect(code).toBe(7);
});

test("it sets the sizes of the heap, as only the start of a process can, and npm start is it", async () => {
  const { stdout } = await run(["flags"]);
  const flags = ["--max-semi-space-size=8", "--initial-old-space-size=100"];
  expect(JSON.parse(stdout)).toEqual(flags);
  const { scripts } = JSON.parse(await readFile(join(repository, "package.json"), "utf8"));
  expect(scripts.start).toBe("exec ./keyrun serve");
});

test("it finds its clone from any folder, and through symbolic links", async () => {
  await mkdir(join(folder, "elsewhere/bin"), { recursive: true });
  await symlink("../../a clone/keyrun", join(folder, "elsewhere/bin/near"));
  await symlink(join(folder, "elsewhere/bin/near"), join(folder, "far"));
  const calls: [string, string][] = [
    [clone, "./keyrun"],
    [join(clone, "src"), "../keyrun"],
    [join(folder, "elsewhere"), "bin/near"],
    [join(folder, "elsewhere"), join(folder, "far")],
  ];
  for (const [cwd, script] of calls) {
    const { code, stdout } = await run(["tell"], { cwd, script });
    expect({ code, folder: JSON.parse(stdout).folder }).toEqual({ code: 7, folder: cwd });
  }
});

test("a signal ends the process that was started, and nothing stays behind", async () => {
  const child = start(["stay"]);
  await once(child.stdout, "data");
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([null, "SIGTERM"]);
});

test("before `npm ci` it says what to run, and where", async () => {
  await rm(join(clone, "node_modules"), { recursive: true });
  const { code, stdout, stderr } = await run(["tell"]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toBe(`Keyrun's packages are not installed yet: run \`npm ci\` in ${clone} first.\n`);
});

test("where the installed Node does not start, or is not there, it takes the one on the PATH", async () => {
  const bin = join(folder, "bin");
  await mkdir(bin);
  await symlink(process.execPath, join(bin, "node"));
  const path = `${bin}:/usr/bin:/bin`;
  await breakNode();
  expect(await run(["tell"], { path })).toMatchObject({ code: 7, stderr: "" });
  await rm(join(clone, place));
  expect(await run(["tell"], { path })).toMatchObject({ code: 7, stderr: "" });
});

describeWith(programsMissing("sed"))("without any Node", () => {
  test("it says which one is needed", async () => {
    await rm(join(clone, place));
    // A PATH with what the script needs, and no Node.
    const bin = join(folder, "bin");
    await mkdir(bin);
    for (const name of ["dirname", "readlink", "sed"]) await symlink(await which(name), join(bin, name));
    const { code, stdout, stderr } = await run(["tell"], { path: bin });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(
      /^Keyrun needs Node 24\.15 or newer, and there is none here\. Install Node 26, .*\n$/,
    );
  });
});

describeWith(oldNode === undefined ? "the PATH has no old Node" : undefined)("with an old Node alone", () => {
  test("it says which one is needed", async () => {
    await rm(join(clone, place));
    const { code, stdout, stderr } = await run(["tell"], { path: `${dirname(oldNode!)}:/usr/bin:/bin` });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(
      /^Keyrun needs Node 24\.15 or newer, and this is Node [\d.]+\. Install Node 26.*\n$/,
    );
  });
});

test("an npm script runs on the same Node", async () => {
  const bin = join(folder, "bin");
  await mkdir(bin);
  await symlink(process.execPath, join(bin, "node"));
  const told = () =>
    new Promise<string>((resolve) => {
      const options = { cwd: clone, env: { PATH: `${bin}:/usr/bin:/bin` } };
      execFile("/bin/sh", ["-c", ". bin/node.sh && command -v node"], options, (_error, stdout) =>
        resolve(stdout.trim()),
      );
    });
  expect(await told()).toBe(join(clone, place));
  await breakNode();
  expect(await told()).toBe(join(bin, "node"));
});

function which(name: string): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile("/bin/sh", ["-c", `command -v ${name}`], (error, stdout) =>
      error ? reject(error) : resolve(stdout.trim()),
    );
  });
}
