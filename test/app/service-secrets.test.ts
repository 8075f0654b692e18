import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadServiceSecrets } from "#src/app/service-secrets.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createLog } from "#src/log/log.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import type { Config } from "#src/settings/config.ts";
import { createSecretFiles } from "#src/settings/data-folder.ts";
import type { Stores } from "#src/store/stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";

const folders = tempFolders();

const [newest, middle, oldest] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte)) as [Buffer, Buffer, Buffer];
const versionOf = (secret: Buffer) => createServiceSecrets([secret]).newestVersion;

/** Loads them where keys need one version and service tokens another. */
async function load({ ofKeys, ofTokens = ofKeys, given }: Record<"ofKeys", Buffer> & Partial<Given>) {
  const dataDir = folders.create();
  const lines: string[] = [];
  const log = createLog({
    ...{ level: "info", keyPrefix: "svc", secrets: [], facts: () => ({}) },
    destination: { write: (line: string) => void lines.push(line) },
  });
  const versionsOf = (secret: Buffer) => ({ secretVersions: async () => [versionOf(secret)] });
  const stores = { keys: versionsOf(ofKeys), serviceTokens: versionsOf(ofTokens) } as unknown as Stores;
  const files = createSecretFiles(dataDir, randomBytes);
  const config = { dataDir, secrets: given } as unknown as Config;
  const found = await loadServiceSecrets(config, files, { stores, log }).catch((thrown: unknown) => thrown);
  return { found, lines, hasFile: existsSync(join(dataDir, "secret")) };
}

interface Given {
  readonly ofTokens: Buffer;
  readonly given: readonly Buffer[];
}

test("a store whose secret is missing is refused with its version, and no secret takes its place", async () => {
  for (const given of [undefined, [newest]]) {
    for (const needs of [
      { ofKeys: oldest, ofTokens: newest },
      { ofKeys: newest, ofTokens: oldest },
    ]) {
      const { found, hasFile } = await load({ ...needs, ...(given && { given }) });
      expect(found).toBeInstanceOf(StartRefused);
      expect((found as Error).message).toMatch(/ a service secret that is not there \(version /);
      expect((found as Error).message).toContain(versionOf(oldest));
      expect(hasFile).toBe(false);
    }
  }
});

test("the older secrets that neither a key nor a service token needs are named by their versions", async () => {
  const { found, lines } = await load({ ofKeys: newest, ofTokens: oldest, given: [newest, middle, oldest] });
  expect(found).toMatchObject({ newestVersion: versionOf(newest) });
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({
    versions: [versionOf(middle)],
    msg: expect.stringContaining("no key needs these older secrets any more"),
  });
});
