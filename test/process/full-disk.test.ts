import { execFileSync } from "node:child_process";
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, onTestFinished, test } from "vitest";
import {
  type KeyrunProcess,
  keyrunCommand,
  restRun,
  type ServingKeyrun,
  type Settings,
  serveKeyrun,
  spawnKeyrun,
} from "../harness/keyrun-process.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
const running: KeyrunProcess[] = [];

afterEach(async () => {
  for (const each of running.splice(0)) {
    each.kill("SIGKILL");
    await each.exited;
  }
});
afterAll(() => folders.remove());

async function serve(dataDir: string, settings: Settings = {}): Promise<ServingKeyrun> {
  const keyrun = await serveKeyrun(dataDir, settings);
  running.push(keyrun);
  return keyrun;
}

async function stop(keyrun: KeyrunProcess): Promise<void> {
  keyrun.kill("SIGTERM");
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
}

const createKey = ["keys", "create", "--team", "demo"];

describe("where the file grpc-address can't be written, Keyrun serves, and the commands say what to set:", () => {
  // Each write to /dev/full fails with ENOSPC.
  const faults: Record<string, (dataDir: string) => void> = {
    "no space is left": (dataDir) => symlinkSync("/dev/full", join(dataDir, "grpc-address.new")),
    "a folder is in its place": (dataDir) => mkdirSync(join(dataDir, "grpc-address")),
  };

  test.each(Object.entries(faults))("%s", async (_, fault) => {
    const dataDir = folders.create();
    fault(dataDir);
    const keyrun = await serve(dataDir);
    const { port } = new URL(keyrun.internalUrl);
    const warnings = linesOfDisk(keyrun.stderr()).map((line) => JSON.parse(line));
    expect(warnings).toMatchObject([
      { level: "warn", address: `127.0.0.1:${port}`, msg: expect.stringContaining("KEYRUN_GRPC_PORT") },
    ]);
    const failed = await keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, createKey);
    expect(failed).toMatchObject({ code: 1, stdout: "" });
    expect(failed.stderr).toContain("KEYRUN_GRPC_PORT");
    // The advice works.
    const created = await keyrunCommand({ KEYRUN_DATA_DIR: dataDir, KEYRUN_GRPC_PORT: port }, createKey);
    expect((await restRun(keyrun.publicUrl, { value: created.stdout.trim() })).status).toBe(200);
    await stop(keyrun);
  });

  test("a file that a killed process left is removed, so that no command asks at its address", async () => {
    const dataDir = folders.create();
    const first = await serve(dataDir);
    first.kill("SIGKILL");
    await first.exited;
    symlinkSync("/dev/full", join(dataDir, "grpc-address.new"));
    await serve(dataDir);
    expect(readdirSync(dataDir)).not.toContain("grpc-address");
  });
});

test("a secret that can't be written refuses the start in words", async () => {
  for (const name of ["secret", "service-token"]) {
    const dataDir = folders.create();
    symlinkSync("/dev/full", join(dataDir, `${name}.new`));
    const refused = spawnKeyrun({ KEYRUN_DATA_DIR: dataDir, KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0" });
    running.push(refused);
    expect(await refused.exited).toEqual({ code: 1, signal: null });
    expect(refused.stderr()).toMatch(/^Keyrun can't start: .+ENOSPC.+KEYRUN_DATA_DIR.+room[^\n]*\n$/);
    expect(readdirSync(dataDir)).not.toContain(name);
  }
});

/** Whether this process may mount, as root mostly may, and in some containers may not. */
const mayMount = (() => {
  const folder = folders.create();
  try {
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", folder], { stdio: "ignore" });
    execFileSync("umount", [folder]);
    return true;
  } catch {
    return false;
  }
})();

describe.skipIf(!mayMount)("on a disk of its own that is full", { timeout: 240_000 }, () => {
  /** A file system of 2 MiB. `leave` fills it but for so many bytes. */
  function mountDisk() {
    const mount = folders.create();
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", mount]);
    onTestFinished(async () => {
      for (const each of running.splice(0)) {
        each.kill("SIGKILL");
        await each.exited;
      }
      execFileSync("umount", [mount]);
    });
    const leave = (bytes: number) => {
      const file = openSync(join(mount, "fill"), "a");
      const block = Buffer.alloc(4_096);
      let size = 0;
      try {
        for (;;) size += writeSync(file, block);
      } catch (thrown) {
        expect(thrown).toMatchObject({ code: "ENOSPC" });
      }
      ftruncateSync(file, size - bytes);
      closeSync(file);
    };
    return { dataDir: join(mount, "data"), leave, free: () => rmSync(join(mount, "fill")) };
  }

  test("a start goes on, runs are answered, the stop is clean, and all is well once there is room", async () => {
    const { dataDir, leave, free } = mountDisk();
    const first = await serve(dataDir);
    const created = await keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, createKey);
    const value = created.stdout.trim();
    await stop(first);

    leave(0);
    const second = await serve(dataDir);
    expect(second.stderr()).toContain("grpc-address");
    expect((await restRun(second.publicUrl, { value })).status).toBe(200);
    const { port } = new URL(second.internalUrl);
    const command = () => keyrunCommand({ KEYRUN_DATA_DIR: dataDir, KEYRUN_GRPC_PORT: port }, createKey);
    const refused = await command();
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain("no room left");
    free();
    expect((await command()).code).toBe(0);
    leave(0);
    await stop(second);
    expect(second.stderr()).toContain("the counted requests could not be kept");

    free();
    const third = await serve(dataDir);
    expect((await restRun(third.publicUrl, { value })).status).toBe(200);
    expect(linesOfDisk(third.stderr())).toEqual([]);
  });

  test("a first start is refused in one sentence or serves, whatever room there is", async () => {
    const { dataDir, leave, free } = mountDisk();
    const outcomes = new Set<string>();
    for (const kibibytes of [0, 64, 128, 192, 256, 480]) {
      leave(kibibytes * 1_024);
      const keyrun = spawnKeyrun({ KEYRUN_DATA_DIR: dataDir, KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0" });
      running.push(keyrun);
      const started = await keyrun
        .until(() => keyrun.stdout().includes("curl "))
        .then(
          () => true,
          () => false,
        );
      outcomes.add(started ? "serves" : "refused");
      if (started) await stop(keyrun);
      else {
        expect(await keyrun.exited).toEqual({ code: 1, signal: null });
        expect(keyrun.stderr()).toMatch(/^Keyrun can't start: .+room[^\n]+\n$/);
      }
      rmSync(dataDir, { recursive: true });
      free();
    }
    expect(outcomes).toEqual(new Set(["serves", "refused"]));
  });
});

/** The log without the audit log, and without what a busy machine adds. */
function linesOfDisk(stderr: string): string[] {
  return stderr.split("\n").filter((line) => line !== "" && !/"msg":"(audit"|the event loop is)/.test(line));
}
