import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readAddress } from "#src/cli/connection.ts";
import { readSettings } from "#src/settings/read-settings.ts";

let dataDir: string;

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "keyrun-address-"));
});

afterEach(() => rmSync(dataDir, { recursive: true }));

function addressOf(env: Record<string, string>): string {
  const all = { KEYRUN_DATA_DIR: dataDir, KEYRUN_GRPC_PLAINTEXT: "true", ...env };
  const settings = readSettings(all, () => "");
  if ("problems" in settings) throw new Error(settings.problems.join());
  return readAddress(settings.ok, all);
}

test.each([
  ["127.0.0.1:8081", "127.0.0.1:8081"],
  ["keyrun.internal:1", "keyrun.internal:1"],
  ["[::1]:8081", "[::1]:8081"],
  ["::1:8081", "[::1]:8081"],
  // Nobody can connect to a wildcard, and no certificate has one.
  ["0.0.0.0:8081", "127.0.0.1:8081"],
  [":::8081", "[::1]:8081"],
  ["[::]:8081", "[::1]:8081"],
])("a server that wrote %s is reached at %s", (written, reached) => {
  writeFileSync(join(dataDir, "grpc-address"), `${written}\n`);
  expect(addressOf({})).toBe(reached);
});

test.each([
  ["::", "[::1]:9000"],
  ["10.0.0.5", "10.0.0.5:9000"],
])("with a port set, a server on %s is reached at %s", (host, reached) => {
  expect(addressOf({ KEYRUN_GRPC_HOST: host, KEYRUN_GRPC_PORT: "9000" })).toBe(reached);
});
