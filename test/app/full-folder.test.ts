import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";

// Each write to /dev/full fails with ENOSPC.

const folders = tempFolders();

const createKey = ["keys", "create", "--team", "demo"];

async function serve(dataDir: string) {
  const keyrun = await startKeyrun({ settings: { KEYRUN_DATA_DIR: dataDir } });
  onTestFinished(() => keyrun.close());
  return keyrun;
}

test.each<[string, (dataDir: string) => void]>([
  ["no space is left", (dataDir) => symlinkSync("/dev/full", join(dataDir, "grpc-address.new"))],
  ["a folder is in its place", (dataDir) => mkdirSync(join(dataDir, "grpc-address"))],
])("where %s for grpc-address, Keyrun serves, and the commands say what to set", async (_, fault) => {
  const dataDir = folders.create();
  fault(dataDir);
  const keyrun = await serve(dataDir);
  const { port } = new URL(keyrun.internalUrl);
  const warnings = keyrun.logLines.map((line) => JSON.parse(line)).filter(({ level }) => level === "warn");
  expect(warnings).toMatchObject([
    { address: `127.0.0.1:${port}`, msg: expect.stringContaining("KEYRUN_GRPC_PORT") },
  ]);
  const failed = await runCommand(createKey, { env: { KEYRUN_DATA_DIR: dataDir } });
  expect(failed).toMatchObject({ code: 1, stdout: "" });
  expect(failed.stderr).toContain("KEYRUN_GRPC_PORT");
  // The advice works.
  const env = { KEYRUN_DATA_DIR: dataDir, KEYRUN_GRPC_PORT: port };
  const { stdout } = await runCommand(createKey, { env });
  expect((await restRun(keyrun.publicUrl, { value: stdout.trim() })).status).toBe(200);
});

test("a grpc-address that a killed process left is removed, so that no command asks at its address", async () => {
  const dataDir = folders.create();
  writeFileSync(join(dataDir, "grpc-address"), "127.0.0.1:1\n", { mode: 0o600 });
  symlinkSync("/dev/full", join(dataDir, "grpc-address.new"));
  await serve(dataDir);
  expect(readdirSync(dataDir)).not.toContain("grpc-address");
});

test.each(["secret", "service-token"])(
  "a %s that can't be written refuses the start in words",
  async (name) => {
    const dataDir = folders.create();
    symlinkSync("/dev/full", join(dataDir, `${name}.new`));
    const settings = { KEYRUN_DATA_DIR: dataDir, KEYRUN_SECRET: undefined };
    const refusal: Error = await startKeyrun({ settings }).then(
      () => new Error("it started"),
      (thrown) => thrown,
    );
    expect(refusal).toBeInstanceOf(StartRefused);
    expect(refusal.message).toMatch(/^.+ENOSPC.+KEYRUN_DATA_DIR.+room[^\n]*$/);
    expect(readdirSync(dataDir)).not.toContain(name);
  },
);
