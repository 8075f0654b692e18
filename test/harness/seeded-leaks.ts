import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createKeyForm } from "#src/keys/key-value.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";

/** A new key, as any Keyrun makes them. */
export function newKeyValue(prefix = "svc"): string {
  return createKeyForm(prefix, createServiceSecrets([randomBytes(32)])).mint(randomBytes).value;
}

/** The same with another last character: its checksum is wrong. */
export function withWrongChecksum(value: string): string {
  return value.slice(0, -1) + (value.endsWith("0") ? "1" : "0");
}

export interface SeededLeaks {
  readonly folder: string;
  /** The keys that are there, by where: a path, or `history` for what only old commits have. */
  readonly leaks: Readonly<Record<string, string>>;
  /** Texts that look like keys, and are none. */
  readonly lookalikes: readonly string[];
}

/**
 * Makes the folder a git repository with keys in a text, twice on a line, in a binary file, in a
 * file that is not committed, in a removed file and in a merged branch. Beside them are a cut key,
 * mistyped ones and one with another prefix.
 */
export function seedLeaks(folder: string): SeededLeaks {
  const git = (...args: string[]) => {
    const who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"];
    execFileSync("git", [...who, ...args], { cwd: folder, stdio: "pipe" });
  };
  const write = (path: string, content: string | Buffer) => writeFileSync(join(folder, path), content);
  const names = ["text", "first", "second", "binary", "wide", "untracked", "removed", "branch"] as const;
  const key = Object.fromEntries(names.map((name) => [name, newKeyValue()])) as Record<
    (typeof names)[number],
    string
  >;
  const cut = newKeyValue().slice(0, -1);
  const lookalikes = [cut, withWrongChecksum(newKeyValue()), withWrongChecksum(newKeyValue())];

  mkdirSync(join(folder, "config"), { recursive: true });
  git("init", "--quiet", "--initial-branch=main");
  write("removed.env", `# once\nKEYRUN_API_KEY=${key.removed}\n`);
  git("add", ".");
  git("commit", "--quiet", "-m", "one");
  rmSync(join(folder, "removed.env"));
  write("config/app.env", `A=1\nB=2\nKEYRUN_API_KEY="${key.text}"\n`);
  write("two.json", `{"a":"${key.first}","b":"${key.second}"}\n`);
  write(
    "program.bin",
    Buffer.concat([Buffer.from([0, 1, 2, 255]), Buffer.from(key.binary), Buffer.alloc(9)]),
  );
  write("wide.txt", Buffer.from(`key: ${key.wide}\r\n`, "utf16le"));
  write("lookalikes.txt", `${lookalikes.join("\n")}\n${newKeyValue("acme")}\n`);
  git("add", "--all");
  git("commit", "--quiet", "-m", "two");
  git("checkout", "--quiet", "-b", "other");
  write("branch.txt", `${key.branch}\n`);
  git("add", ".");
  git("commit", "--quiet", "-m", "three");
  git("checkout", "--quiet", "main");
  write("untracked.txt", `${key.untracked}\n`);
  return { folder, leaks: key, lookalikes };
}
