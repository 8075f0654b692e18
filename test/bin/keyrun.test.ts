import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { describeWith } from "../harness/needs.ts";
import { findOldNode } from "../harness/old-node.ts";

// The launcher in a folder of its own, before a small main.ts that tells what reached it.
const main = `
import { readFileSync } from "node:fs";
const [what, ...args]: string[] = process.argv.slice(2);
const facts: { pid: number; major: number; args: string[]; flags: string[]; malloc: string | undefined } = {
  pid: process.pid, major: Number(process.versions.node.split(".")[0]), args, flags: process.execArgv, malloc: process.env.MALLOC_MMAP_THRESHOLD_,
};
if (what === "tell") {
  console.log(JSON.stringify({ ...facts, stdin: readFileSync(0, "utf8") }));
  process.exitCode = 7;
} else {
  let count = 0;
  const stay = setInterval(() => {}, 1000);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      console.log(signal, ++count);
      if (count === 3) clearInterval(stay);
    });
  }
  console.log("ready", process.pid);
}
`;
const packageName = `node-linux-${process.arch}`;
const packaged = fileURLToPath(new URL(`../../node_modules/${packageName}`, import.meta.url));
const oldNode = findOldNode();
let folder: string;
let children: ChildProcess[];

beforeEach(async () => {
  children = [];
  folder = await mkdtemp(join(tmpdir(), "keyrun-launcher-"));
  for (const part of ["src", "node_modules"]) await mkdir(join(folder, part));
  await cp(new URL("../../bin", import.meta.url), join(folder, "bin"), { recursive: true });
  await writeFile(join(folder, "package.json"), '{"type":"module","engines":{"node":">=24.15"}}');
  await writeFile(join(folder, "src/main.ts"), main);
});

afterEach(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(folder, { recursive: true });
});

function launch(node: string, ...args: string[]) {
  const child = spawn(node, [join(folder, "bin/keyrun.mjs"), ...args]);
  children.push(child);
  const ended = Promise.all([once(child, "exit"), text(child.stdout), text(child.stderr)]).then(
    ([[code], stdout, stderr]) => ({ code, stdout, stderr }),
  );
  return { child, ended };
}

/** Waits until the child has said `words`, and answers with all it said until then. */
function said(child: ChildProcess, words: RegExp): Promise<string> {
  let heard = "";
  return new Promise((resolve) => {
    child.stdout?.on("data", (chunk) => {
      heard += chunk;
      if (words.test(heard)) resolve(heard);
    });
  });
}

test("on a Node that is new enough, main.ts runs in the same process", async () => {
  const { child, ended } = launch(process.execPath, "tell", "a b", "--c");
  child.stdin.end("from stdin");
  const { code, stdout } = await ended;
  expect(JSON.parse(stdout)).toMatchObject({ pid: child.pid, args: ["a b", "--c"], stdin: "from stdin" });
  expect(code).toBe(7);
});

describeWith(oldNode === undefined ? "the PATH has no old Node" : undefined)("on an old Node", () => {
  describe.skipIf(process.platform !== "linux")("with the packaged one", () => {
    beforeEach(() => symlink(packaged, join(folder, "node_modules", packageName)));

    test("main.ts runs on the packaged Node, with arguments, standard input and exit status", async () => {
      const { child, ended } = launch(oldNode!, "tell", "a b", "--c");
      child.stdin.end("from stdin");
      const { code, stdout, stderr } = await ended;
      expect(stderr).toBe("");
      const flags = ["--max-semi-space-size=8", "--initial-old-space-size=100"];
      expect(JSON.parse(stdout)).toMatchObject({
        major: 24,
        args: ["a b", "--c"],
        stdin: "from stdin",
        flags,
        malloc: "131072",
      });
      expect(code).toBe(7);
    });

    test("SIGINT, SIGTERM and SIGHUP reach the server once each, and its own end is the launcher's", async () => {
      const { child, ended } = launch(oldNode!, "stay");
      await said(child, /ready/);
      for (const [index, signal] of (["SIGINT", "SIGTERM", "SIGHUP"] as const).entries()) {
        const heard = said(child, new RegExp(`${signal} ${index + 1}`));
        child.kill(signal);
        await heard;
      }
      expect(await ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/SIGHUP 3\n$/) });
    });

    test("Ctrl-C, which a terminal sends to the whole group, reaches the server once", async () => {
      const child = spawn(oldNode!, [join(folder, "bin/keyrun.mjs"), "stay"], { detached: true });
      children.push(child);
      await said(child, /ready/);
      for (const [index, signal] of (["SIGINT", "SIGTERM", "SIGHUP"] as const).entries()) {
        const heard = said(child, /SIG.*\n/);
        process.kill(-child.pid!, signal);
        expect(await heard).toBe(`${signal} ${index + 1}\n`);
      }
    });

    test("a server that was killed is told as a shell would", async () => {
      const { child, ended } = launch(oldNode!, "stay");
      const pid = Number((await said(child, /ready \d+\n/)).match(/\d+/)![0]);
      process.kill(pid, "SIGKILL");
      expect((await ended).code).toBe(137);
    });
  });

  test("without a packaged Node it says which one is needed, and exits 1", async () => {
    const { code, stdout, stderr } = await launch(oldNode!, "tell").ended;
    expect(stderr).toMatch(
      /^Keyrun needs Node 24\.15 or newer, and this is Node [\d.]+\. Install Node 26.*\n$/,
    );
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  });

  test.skipIf(process.platform !== "linux")(
    "a packaged Node that can't run here is told in a sentence",
    async () => {
      const broken = join(folder, "node_modules", packageName);
      await mkdir(join(broken, "bin"), { recursive: true });
      await writeFile(join(broken, "package.json"), "{}");
      // What a program for another libc looks like to the kernel: its interpreter is not there.
      await writeFile(join(broken, "bin/node"), "#!/nowhere/ld-linux\n");
      await chmod(join(broken, "bin/node"), 0o755);
      const { code, stderr } = await launch(oldNode!, "tell").ended;
      expect(stderr).toMatch(/^Keyrun needs Node .*the packaged Node can't run here \(ENOENT\).*\n$/);
      expect(code).toBe(1);
    },
  );
});
