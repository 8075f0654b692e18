import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { addSecret, dropSecret, promoteSecret, secretVersion } from "#src/cli/secrets.ts";
import type { Terminal } from "#src/cli/terminal.ts";
import type { SeenInstance, StoreInspection } from "#src/store/stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";

const folders = tempFolders();

const [old, added] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)].map((secret) => secret.toString("base64url"));
const [oldVersion, addedVersion] = [1, 2].map((byte) => secretVersion(Buffer.alloc(32, byte)));

/** The file with these lines, beside a store of which a look finds this. */
function secretsBeside(lines: readonly (string | undefined)[], found: Partial<StoreInspection> = {}) {
  const dataDir = folders.create();
  const path = join(dataDir, "secret");
  writeFileSync(path, `${lines.join("\n")}\n`, { mode: 0o600 });
  const nothing = { words: "", isServed: false, isLocked: false, instances: [], registered: [] };
  const world = {
    env: { KEYRUN_DATA_DIR: dataDir },
    readFile: (file: string) => readFileSync(file, "utf8"),
    inspect: async (): Promise<StoreInspection> => ({ ...nothing, secretVersions: [], ...found }),
  };
  const printed: string[] = [];
  const terminal = {
    print: (line: string) => printed.push(line),
    note: () => {},
    confirm: async () => {},
  } as unknown as Terminal;
  return {
    add: () => addSecret(world, terminal, {}),
    promote: () => promoteSecret(world, terminal, {}),
    drop: (version?: string) => dropSecret(world, terminal, { version }),
    held: () => readFileSync(path, "utf8").trimEnd().split("\n"),
    printed,
  };
}

/** An instance that knows these secrets, newest first. */
function instanceWith(...secretVersions: (string | undefined)[]): SeenInstance {
  return { facts: { address: "10.0.0.1:8081", secretVersions } } as unknown as SeenInstance;
}

test("a new secret is put last, promoted to the front, and the old one is dropped when nothing needs it", async () => {
  const { add, promote, drop, held, printed } = secretsBeside([old]);
  await add();
  expect(held()).toEqual([old, expect.stringMatching(/^#/), expect.any(String)]);
  await promote();
  expect(held()).toEqual([expect.any(String), old]);
  await drop();
  expect(held()).toHaveLength(1);
  expect(held()).not.toContain(old);
  expect(printed.join("\n")).toContain(`version ${oldVersion} is no longer in`);
});

test("a secret is not promoted while an instance does not know it, nor where it is the only one", async () => {
  const { promote, held } = secretsBeside([old, added], {
    instances: [instanceWith(oldVersion, addedVersion), instanceWith(oldVersion)],
  });
  await expect(promote()).rejects.toThrow(`10.0.0.1:8081 does not know version ${addedVersion} yet`);
  expect(held()).toEqual([old, added]);
  const allKnow = secretsBeside([old, added], { instances: [instanceWith(oldVersion, addedVersion)] });
  await allKnow.promote();
  expect(allKnow.held()).toEqual([added, old]);
  await expect(secretsBeside([old]).promote()).rejects.toThrow("holds one secret");
});

test.each<[string, Partial<StoreInspection>, RegExp]>([
  ["a key needs", { secretVersions: [oldVersion ?? ""] }, /The store holds keys that were made with version/],
  ["the Keyrun that serves alone may make keys with", { isServed: true }, /serves the store alone, and may/],
  ["a suspended Keyrun may make keys with", { isLocked: true }, /is suspended or was killed/],
  [
    "an instance makes keys with, also a silent one",
    { registered: [instanceWith(addedVersion, oldVersion), instanceWith(oldVersion, addedVersion)] },
    /still makes keys with version/,
  ],
])("a secret that %s is not dropped, and the file stays", async (_, found, words) => {
  const { drop, held } = secretsBeside([added, old], found);
  await expect(drop()).rejects.toThrow(words);
  expect(held()).toEqual([added, old]);
});

test("neither the first secret is dropped, nor one that was never promoted, nor one that is not there", async () => {
  const { drop, add, held } = secretsBeside([added, old]);
  await expect(drop(addedVersion)).rejects.toThrow("is the first in");
  await expect(drop("00000000")).rejects.toThrow("holds no secret of version 00000000");
  await add();
  const before = held();
  await expect(drop()).rejects.toThrow("was added and never promoted");
  expect(held()).toEqual(before);
  await drop(oldVersion);
  expect(held()).not.toContain(old);
});

test("a secret that an instance knows and does not make keys with may go", async () => {
  const { drop, held } = secretsBeside([added, old], {
    registered: [instanceWith(addedVersion, oldVersion)],
  });
  await drop(oldVersion);
  expect(held()).toEqual([added]);
});
