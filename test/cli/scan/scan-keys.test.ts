import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { KeyFinder } from "#src/cli/scan/scan-keys.ts";
import { chunkBytes } from "#src/cli/scan/scanned-files.ts";
import { createKeyText, redactKeyValue } from "#src/keys/key-value.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { runCommand } from "../../harness/command-line.ts";
import { repository } from "../../harness/keyrun-process.ts";
import { describeWith, programsMissing } from "../../harness/needs.ts";
import { newKeyValue, seedLeaks, withWrongChecksum } from "../../harness/seeded-leaks.ts";

const folders = tempFolders();
const { folder, leaks, lookalikes } = seedLeaks(folders.create());

const scan = (...args: string[]) => runCommand(["keys", "scan", ...args]);
const line = (path: string, at: number, value: string) =>
  `${join(folder, path)}:${at}  ${redactKeyValue(value)}`;

/** No key, real or not, is ever printed as it is. */
function expectNoValue(text: string): void {
  for (const value of [...Object.values(leaks), ...lookalikes])
    expect(text).not.toContain(value.slice(29, 60));
}

test("keys in the files of a folder are told with path, line and redacted value, and what only looks like one is not", async () => {
  const { code, stdout, stderr } = await scan(folder);
  expect(stdout.trim().split("\n").sort()).toEqual(
    [
      line("config/app.env", 3, leaks.text!),
      line("two.json", 1, leaks.first!),
      line("two.json", 1, leaks.second!),
      line("program.bin", 1, leaks.binary!),
      line("wide.txt", 1, leaks.wide!),
      line("untracked.txt", 1, leaks.untracked!),
    ].sort(),
  );
  expect(code).toBe(1);
  expect(stderr).toMatch(/^Found 6 keys in \d+ files, \d+ bytes\.\n$/);
  expectNoValue(stdout + stderr);
});

test("with --history keys of removed files and of other branches are told with their first commit", async () => {
  const { code, stdout, stderr } = await scan("--history", folder);
  expect(code).toBe(1);
  const commitOf = (message: string) =>
    execFileSync("git", ["log", "--all", `--grep=${message}`, "--format=%H"], { cwd: folder })
      .toString()
      .slice(0, 12);
  expect(stdout).toContain(`removed.env:2 in commit ${commitOf("one")}  ${redactKeyValue(leaks.removed!)}\n`);
  expect(stdout).toContain(`branch.txt:1 in commit ${commitOf("three")}  ${redactKeyValue(leaks.branch!)}\n`);
  for (const value of Object.values(leaks)) expect(stdout).toContain(redactKeyValue(value));
  for (const value of lookalikes) expect(stdout).not.toContain(redactKeyValue(value));
  expectNoValue(stdout + stderr);
});

test("a history is read of a folder inside of a clone, of a bare one, and of what no branch has any more", async () => {
  const bare = folders.create();
  execFileSync("git", ["clone", "--quiet", "--bare", folder, bare], { stdio: "pipe" });
  expect((await scan("--history", bare)).stdout).toContain(redactKeyValue(leaks.removed!));
  expect((await scan("--history", join(folder, "config"))).stdout).toContain(redactKeyValue(leaks.branch!));
  const copy = folders.create();
  execFileSync("git", ["clone", "--quiet", folder, copy], { stdio: "pipe" });
  const lost = newKeyValue();
  execFileSync("git", ["hash-object", "-w", "--stdin"], { cwd: copy, input: `a\n${lost}\n` });
  expect((await scan("--history", copy)).stdout).toMatch(
    new RegExp(`blob [0-9a-f]{40}:2 {2}${redactKeyValue(lost)}`),
  );
});

test("a history is read without any program that the repository's settings name", async () => {
  const place = folders.create();
  const ran = join(folders.create(), "ran");
  const program = join(folders.create(), "program.sh");
  writeFileSync(program, `#!/bin/sh\ntouch ${ran}\n`, { mode: 0o700 });
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args], {
      cwd: place,
      stdio: "pipe",
    });
  git("init", "--quiet");
  writeFileSync(join(place, "leak.env"), newKeyValue());
  git("add", ".");
  git("commit", "--quiet", "-m", "one");
  // A commit that says that it is signed: git would ask the program whether it is.
  const [head, ...rest] = git("cat-file", "commit", "HEAD").toString().split("\n\n");
  const signed = `${head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\n${rest.join("\n\n")}`;
  const id = execFileSync("git", ["hash-object", "-t", "commit", "-w", "--stdin"], {
    cwd: place,
    input: signed,
  });
  git("update-ref", "HEAD", id.toString().trim());
  for (const [name, value] of [
    ["log.showSignature", "true"],
    ...["gpg.program", "core.fsmonitor", "diff.external", "core.pager"].map((each) => [each, program]),
  ]) {
    git("config", name!, value!);
  }
  const { code, stdout } = await scan("--history", place);
  expect({ code, found: stdout.includes("leak.env:1 in commit") }).toEqual({ code: 1, found: true });
  expect(existsSync(ran)).toBe(false);
});

test("with --json what was found is a document, without a value", async () => {
  const { code, stdout } = await scan("--json", "--history", folder);
  expect(code).toBe(1);
  const { findings, files, objects, unreadable } = JSON.parse(stdout);
  expect(findings).toContainEqual({
    path: join(folder, "config/app.env"),
    line: 3,
    redactedValue: redactKeyValue(leaks.text!),
  });
  expect(findings).toContainEqual({
    path: "removed.env",
    line: 2,
    redactedValue: redactKeyValue(leaks.removed!),
    commit: expect.stringMatching(/^[0-9a-f]{40}$/),
  });
  expect([files > 5, objects > 5, unreadable]).toEqual([true, true, 0]);
  expectNoValue(stdout);
});

test("standard input is scanned as -, and nothing found is exit 0", async () => {
  const key = newKeyValue();
  const found = await runCommand(["keys", "scan", "-"], {
    stdin: ["a\nb ", key.slice(0, 40), key.slice(40)],
  });
  expect(found).toMatchObject({ code: 1, stdout: `-:2  ${redactKeyValue(key)}\n` });
  const none = await runCommand(["keys", "scan", "-"], { stdin: [key.slice(0, 77)] });
  expect(none).toMatchObject({ code: 0, stdout: "" });
});

test("the prefix is the setting's, or the option's", async () => {
  const key = newKeyValue("acme");
  const stdin = [key];
  expect(await runCommand(["keys", "scan", "-"], { stdin })).toMatchObject({ code: 0 });
  expect(await runCommand(["keys", "scan", "--prefix", "acme", "-"], { stdin })).toMatchObject({ code: 1 });
  const env = { KEYRUN_KEY_PREFIX: "acme" };
  expect(await runCommand(["keys", "scan", "-"], { stdin, env })).toMatchObject({ code: 1 });
});

test("wrong use is exit 2: no path, a prefix that no key can have", async () => {
  expect((await scan()).code).toBe(2);
  expect((await scan("--prefix", "A_", folder)).code).toBe(2);
});

describe("a history that can't be read", () => {
  test("is one part that is not read: all else is scanned and told", async () => {
    const place = folders.create();
    const [file, clean, missing] = [join(place, "a.txt"), folders.create(), join(place, "missing")];
    const notRead = (path: string) => `Not read: the history of ${path}: it is not in a git repository\n`;
    expect(await scan("--history", clean)).toEqual({
      code: 2,
      stdout: "",
      stderr: `${notRead(clean)}No key in 0 files and 0 objects of git, 0 bytes.\n`,
    });
    writeFileSync(file, "nothing");
    expect(await scan("--history", file)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(notRead(file)),
    });
    expect(await scan("--history", missing)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Not read: \S+missing: ENOENT\nNo key/),
    });
    const key = newKeyValue();
    writeFileSync(file, key);
    expect(await scan("--history", clean, place, folder)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(`${file}:1  ${redactKeyValue(key)}\n`),
      stderr: expect.stringMatching(/^Not read: .+\nNot read: .+\nFound \d+ keys in /),
    });
    const { code, stdout } = await scan("--json", "--history", place);
    const { findings, unreadable } = JSON.parse(stdout);
    expect({ code, found: findings.length, unreadable }).toEqual({ code: 1, found: 1, unreadable: 1 });
  });

  test("for want of git is told so", () => {
    const place = folders.create();
    const program = [join(repository, "bin/keyrun.mjs"), "keys", "scan", "--history", place];
    const env = { PATH: folders.create() };
    const { status, stderr } = spawnSync(process.execPath, program, { env, encoding: "utf8" });
    expect(status).toBe(2);
    expect(stderr).toContain(`Not read: the history of ${place}: git is not installed\n`);
  });

  test("for a damaged object is told so, and what the others hold is found", async () => {
    const place = folders.create();
    execFileSync("git", ["clone", "--quiet", "--no-hardlinks", folder, place], { stdio: "pipe" });
    const added = (text: string) =>
      execFileSync("git", ["hash-object", "-w", "--stdin"], { cwd: place, input: text }).toString().trim();
    const id = added("whole");
    expect((await scan("--history", place)).stderr).not.toContain("Not read");
    const object = join(place, ".git/objects", id.slice(0, 2), id.slice(2));
    chmodSync(object, 0o600);
    writeFileSync(object, "damaged");
    const { code, stdout, stderr } = await scan("--history", place);
    expect({ code, found: stdout.includes(redactKeyValue(leaks.removed!)) }).toEqual({
      code: 1,
      found: true,
    });
    expect(stderr).toContain(`Not read: the history of ${place}: git can't read 1 of its objects`);
  });
});

test("the history is read of the repository that holds a file, and once for all paths in it", async () => {
  const file = join(folder, "config/app.env");
  const alone = await scan("--history", file);
  expect(alone.stdout).toContain(`removed.env:2 in commit `);
  const { stdout, stderr } = await scan("--history", file, join(folder, "config"), folder);
  expect(stdout.split("removed.env:2 in commit ")).toHaveLength(2);
  const objectsOf = (text: string) => /\d+ objects/.exec(text)?.[0];
  expect(objectsOf(stderr)).toBe(objectsOf(alone.stderr));
});

test("what can't be read is told, and nothing found is then no success", async () => {
  const place = folders.create();
  writeFileSync(join(place, "a.txt"), "nothing");
  const missing = join(place, "missing");
  expect(await scan(missing)).toMatchObject({ code: 2, stderr: expect.stringContaining("ENOENT") });
  const key = newKeyValue();
  writeFileSync(join(place, "b.txt"), key);
  expect(await scan(place, missing)).toMatchObject({
    code: 1,
    stdout: `${join(place, "b.txt")}:1  ${redactKeyValue(key)}\n`,
  });
  // The root may read everything.
  if (process.getuid?.() === 0) return;
  chmodSync(join(place, "b.txt"), 0);
  expect(await scan(place)).toMatchObject({ code: 2, stderr: expect.stringContaining("EACCES") });
});

test("no link is followed out of a folder, no pipe is opened, and git's compressed objects are left out", async () => {
  const [place, outside] = [folders.create(), folders.create()];
  writeFileSync(join(outside, "key.txt"), newKeyValue());
  symlinkSync(outside, join(place, "folder"));
  symlinkSync(join(outside, "key.txt"), join(place, "file"));
  symlinkSync(place, join(place, "circle"));
  execFileSync("mkfifo", [join(place, "pipe")]);
  mkdirSync(join(place, ".git/objects"), { recursive: true });
  writeFileSync(join(place, ".git/HEAD"), "ref: refs/heads/main\n");
  writeFileSync(join(place, ".git/objects/a"), newKeyValue());
  expect(await scan(place)).toMatchObject({ code: 0, stdout: "" });
  // The reader has named the link.
  expect((await scan(join(place, "file"))).code).toBe(1);
  const key = newKeyValue();
  writeFileSync(join(place, ".git/config"), `url = https://${key}@example.com\n`);
  expect((await scan(place)).stdout).toContain(".git/config:1");
});

test("a pipe that is named is read to its end", async () => {
  const key = newKeyValue();
  const pipe = join(folders.create(), "pipe");
  execFileSync("mkfifo", [pipe]);
  for (const text of [key, "nothing"]) {
    const writer = spawn("sh", ["-c", `printf 'a\nb %s\n' "$TEXT" > '${pipe}'`], { env: { TEXT: text } });
    const code = text === key ? 1 : 0;
    const stdout = text === key ? `${pipe}:2  ${redactKeyValue(key)}\n` : "";
    expect(await scan(pipe)).toMatchObject({ code, stdout, stderr: expect.stringContaining("in 1 file, ") });
    writer.kill();
  }
});

describeWith(programsMissing("bash"))("a shell", () => {
  test.each(["cat FILE | SCAN /dev/stdin", "SCAN <(cat FILE)", "SCAN /dev/stdin < FILE"])(
    "%s finds the key",
    (command) => {
      const key = newKeyValue();
      const file = join(folders.create(), "key.txt");
      writeFileSync(file, key);
      const program = `'${process.execPath}' '${join(repository, "bin/keyrun.mjs")}' keys scan`;
      const line = command.replace("FILE", `'${file}'`).replace("SCAN", program);
      const { status, stdout } = spawnSync("bash", ["-c", line], { encoding: "utf8" });
      expect({ status, stdout }).toEqual({ status: 1, stdout: expect.stringContaining(redactKeyValue(key)) });
    },
  );
});

test("a named socket is told as not read", async () => {
  const path = join(folders.create(), "socket");
  const server = createServer().listen(path);
  await once(server, "listening");
  onTestFinished(() => void server.close());
  expect(await scan(path)).toMatchObject({ code: 2, stderr: expect.stringContaining(`${path}: ENXIO`) });
});

test("a key in the name of a file is not printed", async () => {
  const place = folders.create();
  const key = newKeyValue();
  writeFileSync(join(place, `${key}.txt`), key);
  const { stdout, stderr } = await scan(place);
  expect(stdout).toContain(redactKeyValue(key));
  expect(stdout + stderr).not.toContain(key.slice(29, 60));
});

describe("the finder", () => {
  const keys = createKeyText("svc");
  const findAll = (pieces: readonly Uint8Array[]) => {
    const finder = new KeyFinder(keys);
    return pieces.flatMap((piece) => finder.find(piece));
  };

  test("finds the same keys on the same lines however the bytes are cut into pieces", () => {
    const noise = fc.constantFrom("\n", "svc", "svc_", "\0", ".", "x", newKeyValue().slice(0, 75), "\n\n");
    const text = fc.array(
      fc.oneof(
        noise,
        fc.constant(undefined).map(() => newKeyValue()),
      ),
      { maxLength: 8 },
    );
    fc.assert(
      fc.property(text, fc.array(fc.nat(200), { maxLength: 20 }), (parts, cuts) => {
        const whole = Buffer.from(parts.join(""));
        const pieces: Uint8Array[] = [];
        let at = 0;
        for (const length of cuts) {
          pieces.push(whole.subarray(at, at + length));
          at += length;
        }
        pieces.push(whole.subarray(at));
        const expected = findAll([whole]);
        expect(findAll(pieces)).toEqual(expected);
        const real = parts.filter((part) => keys.isWhole(part));
        expect(expected.map(({ value }) => value)).toEqual(expect.arrayContaining(real));
      }),
      { numRuns: 300 },
    );
  });

  test("finds a key behind one that is cut or mistyped", () => {
    const [cut, next] = [newKeyValue().slice(0, 75), newKeyValue()];
    expect(findAll([Buffer.from(cut + next)])).toEqual([{ line: 1, value: next }]);
    expect(findAll([Buffer.from(withWrongChecksum(newKeyValue()) + next)])).toEqual([
      { line: 1, value: next },
    ]);
  });
});

test.each(["big.log", "/dev/stdin"])(
  "a large %s is streamed: the memory does not grow with it, and a key across two pieces is found",
  async (named) => {
    const place = folders.create();
    const big = join(place, "big.log");
    const key = newKeyValue();
    const filler = Buffer.alloc(64 * 1024 * 1024 + chunkBytes - 40, "a line of a log\n");
    writeFileSync(big, Buffer.concat([filler, Buffer.from(key), filler, filler]));
    const command = `cat big.log | "$NODE" --max-old-space-size=40 "$KEYRUN" keys scan ${named}`;
    const env = { ...process.env, NODE: process.execPath, KEYRUN: join(repository, "bin/keyrun.mjs") };
    const program = spawn("sh", ["-c", command], { cwd: place, env });
    let stdout = "";
    program.stdout.on("data", (chunk) => {
      stdout += chunk;
    });
    const code = await new Promise((resolve) => program.on("close", resolve));
    expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringContaining(redactKeyValue(key)) });
  },
);
