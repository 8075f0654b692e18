import { chownSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readAddress, readServiceToken } from "#src/cli/connection.ts";
import { readSettings } from "#src/settings/read-settings.ts";
import { describeWith, rootMissing } from "../harness/needs.ts";

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
  [":::8081", "127.0.0.1:8081"],
  ["[::]:8081", "127.0.0.1:8081"],
])("a server that wrote %s is reached at %s", (written, reached) => {
  writeFileSync(join(dataDir, "grpc-address"), `${written}\n`);
  expect(addressOf({})).toBe(reached);
});

test.each([
  ["::", "127.0.0.1:9000"],
  ["10.0.0.5", "10.0.0.5:9000"],
])("with a port set, a server on %s is reached at %s", (host, reached) => {
  expect(addressOf({ KEYRUN_GRPC_HOST: host, KEYRUN_GRPC_PORT: "9000" })).toBe(reached);
});

describe("in a folder of somebody else, where no setting names the data folder", () => {
  const token = "t".repeat(43);

  /** Reads both files of the data folder, as a command does that found it where it runs. */
  function readBoth(env: Record<string, string> = {}) {
    const settings = readSettings({ KEYRUN_DATA_DIR: dataDir }, () => "");
    if ("problems" in settings) throw new Error(settings.problems.join());
    return [readAddress(settings.ok, env), readServiceToken(settings.ok, env)];
  }

  beforeEach(() => {
    writeFileSync(join(dataDir, "grpc-address"), "127.0.0.1:8081\n");
    writeFileSync(join(dataDir, "service-token"), token);
  });

  test("files of this user are read", () => {
    expect(readBoth()).toEqual(["127.0.0.1:8081", token]);
  });

  test.each(["grpc-address", "service-token"])("%s is not followed as a link", (name) => {
    writeFileSync(join(dataDir, "elsewhere"), "private");
    rmSync(join(dataDir, name));
    symlinkSync(join(dataDir, "elsewhere"), join(dataDir, name));
    expect(() => readBoth()).toThrow(`${name} is not one of this user's Keyrun`);
    // A secret that Kubernetes mounts is a link, in a folder that the operator has named.
    if (name === "service-token") expect(readBoth({ KEYRUN_DATA_DIR: dataDir })[1]).toBe("private");
  });

  describeWith(rootMissing)("of two users", () => {
    test.each(["grpc-address", "service-token"])("%s of another user is not believed", (name) => {
      chownSync(join(dataDir, name), 12_345, 12_345);
      expect(() => readBoth()).toThrow("set KEYRUN_DATA_DIR to the server's data folder");
      expect(readBoth({ KEYRUN_DATA_DIR: dataDir })).toEqual(["127.0.0.1:8081", token]);
    });
  });
});
