import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { changeSecrets, putFirst, putLast } from "#src/settings/change-secrets.ts";
import { createSecretFiles, newSecretText } from "#src/settings/data-folder.ts";
import { tempFolders } from "../harness/closed-at-end.ts";

const folders = tempFolders();

const newText = () => newSecretText(randomBytes);

/** A file `secret` in a new folder, as the first start makes it. */
function newFile(text = `${newText()}\n`): string {
  const path = join(folders.create(), "secret");
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

const read = (path: string) => readFileSync(path, "utf8");
const refusalOf = async (path: string) => {
  const rotation = await changeSecrets(path, putFirst(newText()));
  return "refused" in rotation ? rotation.refused : "";
};

test("a rotation puts the new secret first and keeps the others, one a line, for the owner alone", async () => {
  const path = newFile();
  const old = read(path).trim();
  const [second, third] = [newText(), newText()];
  const rotation = await changeSecrets(path, putFirst(second));
  expect(rotation).toEqual({ secrets: [second, old].map((text) => Buffer.from(text, "base64url")) });
  await changeSecrets(path, putFirst(third));
  expect(read(path)).toBe(`${third}\n${second}\n${old}\n`);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(path, ".."))).toEqual(["secret"]);
});

test.each([",", "\n", ", ", "\r\n", "\n\n"])(
  "a list may be separated by %j, in the file that start reads",
  async (separator) => {
    const texts = [newText(), newText(), newText()];
    const path = newFile(`${texts.join(separator)}\n`);
    const buffers = texts.map((text) => Buffer.from(text, "base64url"));
    expect(await createSecretFiles(join(path, ".."), randomBytes).findSecrets()).toEqual(buffers);
    const added = newText();
    await changeSecrets(path, putFirst(added));
    expect(read(path)).toBe(`${[added, ...texts].join("\n")}\n`);
  },
);

test("an added secret is marked in the file, which start reads as before, until another list has it without", async () => {
  const [old, added, third] = [newText(), newText(), newText()];
  const path = newFile(old);
  await changeSecrets(path, putLast(added));
  expect(read(path)).toBe(`${old}\n# not promoted yet:\n${added}\n`);
  const start = () => createSecretFiles(join(path, ".."), randomBytes).findSecrets();
  expect(await start()).toEqual([old, added].map((text) => Buffer.from(text, "base64url")));
  await changeSecrets(path, putFirst(third));
  expect(read(path)).toBe(`${third}\n${old}\n# not promoted yet:\n${added}\n`);
  // As a setting has it, where a list is one line.
  writeFileSync(path, read(path).replaceAll("\n", ",").slice(0, -1));
  expect(await start()).toHaveLength(3);
});

test("what is no list of secrets is never replaced, and neither used by start", async () => {
  const mark = "# not promoted yet:";
  const notLists = [mark, `${newText()}\n${mark}`, `${newText()}\n# mine\n${newText()}`];
  for (const text of [
    ...notLists,
    "",
    "short",
    `${newText()},`,
    `${newText()},short`,
    `${newText()} ${newText()}`,
  ]) {
    const path = newFile(text);
    expect(await refusalOf(path)).toMatch(/does not hold a list of secrets/);
    expect(read(path)).toBe(text);
    const files = createSecretFiles(join(path, ".."), randomBytes);
    await expect(files.findSecrets()).rejects.toThrow(/secret is damaged/);
  }
});

test("the ninth secret is refused, and the file stays", async () => {
  const path = newFile();
  for (let count = 2; count <= 8; count++) expect(await refusalOf(path)).toBe("");
  const before = read(path);
  expect(await refusalOf(path)).toMatch(/holds 8 secrets/);
  expect(read(path)).toBe(before);
});

test("of rotations at the same time one is done, and no secret is lost", async () => {
  const path = newFile();
  const old = read(path).trim();
  const texts = [newText(), newText(), newText()];
  const rotations = await Promise.all(texts.map((text) => changeSecrets(path, putFirst(text))));
  const done = texts.filter((_, index) => "secrets" in (rotations[index] ?? {}));
  expect(done.length).toBeGreaterThan(0);
  expect(read(path).trim().split("\n").sort()).toEqual([...done, old].sort());
});

test("a draft that a kill has left is refused in words that name it", async () => {
  const path = newFile();
  writeFileSync(`${path}.new`, "");
  expect(await refusalOf(path)).toContain(`The file ${path}.new is there`);
  rmSync(`${path}.new`);
  expect(await refusalOf(path)).toBe("");
});

test("a link stays a link, and the file behind it is changed", async () => {
  const path = newFile();
  const link = join(folders.create(), "link");
  symlinkSync(path, link);
  expect(await refusalOf(link)).toBe("");
  expect(lstatSync(link).isSymbolicLink()).toBe(true);
  expect(read(path).trim().split("\n")).toHaveLength(2);
});

test.each(["444", "440", "644", "600"])(
  "a file of mode %s keeps it: others may have to read it",
  async (mode) => {
    const path = newFile();
    chmodSync(path, Number.parseInt(mode, 8));
    expect(await refusalOf(path)).toBe("");
    expect((statSync(path).mode & 0o777).toString(8)).toBe(mode);
  },
);

test("a write that fails leaves the file as it was, in words", async () => {
  const path = newFile();
  const before = read(path);
  const program = `import { changeSecrets, putFirst } from "#src/settings/change-secrets.ts";
    console.log(JSON.stringify(await changeSecrets(${JSON.stringify(path)}, putFirst("${newText()}"))));`;
  // No file may grow past 0 bytes.
  const line = `ulimit -f 0 && exec "$0" --input-type=module-typescript -e "$1"`;
  const printed = await new Promise<string>((resolve, reject) => {
    const cwd = fileURLToPath(new URL("../../", import.meta.url));
    execFile("sh", ["-c", line, process.execPath, program], { cwd }, (error, out) =>
      error ? reject(error) : resolve(out),
    );
  });
  expect(JSON.parse(printed).refused).toMatch(/can't be replaced \(EFBIG\): run this as its owner/);
  expect(read(path)).toBe(before);
  expect(existsSync(`${path}.new`)).toBe(false);
});

test("a kill in the middle of rotations leaves the old list or the new one, and loses no secret", async () => {
  const rotator = fileURLToPath(new URL("./secret-rotator.ts", import.meta.url));
  for (let cycle = 0; cycle < 6; cycle++) {
    const folder = folders.create();
    const child = spawn(process.execPath, [rotator, folder], { stdio: ["ignore", "pipe", "inherit"] });
    const reported: { n: string; text: string }[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      const [n = "", text = ""] = line.split(" ");
      reported.push({ n, text });
      if (reported.length === 40 + cycle * 7) child.kill("SIGKILL");
    }
    expect(reported.length).toBeGreaterThan(39);
    for (const n of readdirSync(folder)) {
      const path = join(folder, n, "secret");
      const ofThis = reported.filter((each) => each.n === n);
      // The kill may have come before the first secret of the last folder was there.
      if (ofThis.length === 0 && (!existsSync(path) || read(path) === "")) continue;
      await createSecretFiles(join(folder, n), randomBytes).findSecrets();
      const held = read(path).trim().split("\n");
      // The first secret, those that were reported, and perhaps one that could not be reported.
      expect([1, 2]).toContain(held.length - ofThis.length);
      for (const { text } of ofThis) expect(held).toContain(text);
    }
  }
});
