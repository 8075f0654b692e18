import { execFile } from "node:child_process";
import { closeSync, openSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createBrowser } from "../harness/browser.ts";
import { freePort } from "../harness/free-port.ts";
import {
  type KeyrunProcess,
  keyrunCommand,
  repository,
  restRun,
  type ServingKeyrun,
  serveKeyrun,
  spawnKeyrun,
  statusOf,
} from "../harness/keyrun-process.ts";
import { buildScreen } from "../harness/screen-build.ts";
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

async function serve(...args: Parameters<typeof serveKeyrun>): Promise<ServingKeyrun> {
  const keyrun = await serveKeyrun(...args);
  running.push(keyrun);
  return keyrun;
}

describe("a first start", () => {
  let keyrun: ServingKeyrun;
  beforeAll(async () => {
    buildScreen();
    keyrun = await serveKeyrun(folders.create());
  });
  afterAll(async () => {
    keyrun.kill("SIGKILL");
    await keyrun.exited;
  });

  test("prints the address, how to create a key and how to run an app, and what is printed works", async () => {
    const { publicUrl, internalUrl, dataDir } = keyrun;
    const curl = `curl -sS -X POST ${publicUrl}/api/apps/echo/run -H "Authorization: Bearer $KEYRUN_API_KEY" -H "Content-Type: application/json" -d '{"text":"hello"}'`;
    const makeKey = `export KEYRUN_API_KEY=$(KEYRUN_DATA_DIR=${dataDir} ./keyrun keys create --team demo)`;
    const [words, screenWords] = keyrun.stdout().split(/(?<=hello"}'\n)/);
    // The last lines are about the screen and depend on whether it is built.
    expect(screenWords).toMatch(/^(Manage keys in the browser|The screen is not built yet)/);
    expect(words).toBe(`Keyrun is ready: ${publicUrl} (gRPC ${internalUrl.slice("http://".length)})

Make a key, which is shown this once:
  ${makeKey}
Run an app with it:
  ${curl}
`);
    expect(JSON.parse((await typed(`${makeKey}\n${curl}`)).stdout)).toMatchObject({
      appId: "echo",
      text: "hello",
    });
  });

  test("prints no link where others may read along, but the command for one, which works", async () => {
    const [command = ""] = /(?<=^ {2}).+ sign-in-link$/m.exec(keyrun.stdout()) ?? [];
    expect(command).toBe(`KEYRUN_DATA_DIR=${keyrun.dataDir} ./keyrun sign-in-link`);
    expect(keyrun.stdout() + keyrun.stderr()).not.toMatch(/sign-in\/link|code=/);
    const link = (await typed(command)).stdout.trim();
    expect((await createBrowser(keyrun.publicUrl).openLink(link)).status).toBe(204);
  });

  test("has a key created, listed, verified, used and revoked from the command line", async () => {
    const { publicUrl, dataDir } = keyrun;
    const command = (args: string[], stdin?: string) =>
      keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, args, stdin);
    const created = await command(["keys", "create", "--team", "demo", "--label", "laptop"]);
    expect(created).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^svc_[0-9a-z]{24}\.[0-9A-Za-z]{49}\n$/),
    });
    const value = created.stdout.trim();
    const id = value.slice(4, 28);
    expect(await command(["keys", "verify"], `${value}\n`)).toMatchObject({ code: 0, stdout: "VALID\n" });
    expect(await restRun(publicUrl, { value })).toMatchObject({ status: 200 });
    const listed = await command(["keys", "list", "--team", "demo"]);
    expect(listed.stdout).toContain("laptop");
    expect(listed.stdout).toContain(`${value.slice(0, 8)}…${value.slice(-4)}`);
    expect(listed.stdout).not.toContain("never");
    expect(await command(["keys", "revoke", "--team", "demo", id])).toMatchObject({ code: 0 });
    expect(await restRun(publicUrl, { value })).toMatchObject({ status: 401 });
    expect(await command(["keys", "verify"], value)).toMatchObject({ code: 1, stdout: "REVOKED\n" });
  });

  test("is not disturbed by a second one on its folder, or on one of its ports, which is refused", async () => {
    const port = new URL(keyrun.publicUrl).port;
    expectRefused(
      await refused({ KEYRUN_DATA_DIR: keyrun.dataDir }),
      /^Keyrun can't start: Another Keyrun already serves the data folder .+\n$/,
    );
    for (const name of ["KEYRUN_PORT", "KEYRUN_GRPC_PORT"]) {
      expectRefused(
        await refused({ [name]: port }),
        new RegExp(
          `^Keyrun can't start: 127\\.0\\.0\\.1:${port} is already in use: set ${name} to a free port`,
        ),
      );
    }
    expect(await statusOf(`${keyrun.publicUrl}/readyz`)).toBe(200);
  });
});

test("the text is printed before /readyz first answers 200", async () => {
  const [port, grpcPort] = [await freePort(), await freePort()];
  const out = join(folders.create(), "stdout");
  const settings = {
    KEYRUN_PORT: String(port),
    KEYRUN_GRPC_PORT: String(grpcPort),
    KEYRUN_DATA_DIR: folders.create(),
  };
  // A shell redirects the output to a file, which can be read at any moment.
  closeSync(openSync(out, "w"));
  const keyrun = spawnKeyrun(settings, [
    "sh",
    "-c",
    `exec "$0" src/main.ts serve > "$1"`,
    process.execPath,
    out,
  ]);
  running.push(keyrun);
  let status = 0;
  while (status !== 200) status = await statusOf(`http://127.0.0.1:${port}/readyz`);
  expect(readFileSync(out, "utf8")).toContain(
    `Keyrun is ready: http://127.0.0.1:${port} (gRPC 127.0.0.1:${grpcPort})`,
  );
});

test("files of the first start are readable only by their owner, and the next start uses them", async () => {
  const dataDir = join(folders.create(), "data");
  const first = await serve(dataDir);
  const token = first.serviceToken();
  for (const name of ["secret", "service-token", "grpc-address", "keyrun.db"]) {
    expect({ name, mode: statSync(join(dataDir, name)).mode & 0o777 }).toEqual({ name, mode: 0o600 });
  }
  expect(statSync(dataDir).mode & 0o777).toBe(0o700);
  const created = await keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, ["keys", "create", "--team", "demo"]);
  first.kill("SIGTERM");
  expect(await first.exited).toEqual({ code: 0, signal: null });
  const second = await serve(dataDir);
  expect(second.serviceToken()).toBe(token);
  expect(await restRun(second.publicUrl, { value: created.stdout.trim() })).toMatchObject({ status: 200 });
});

test("npm start passes the signal on", async () => {
  const settings = { KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0", KEYRUN_DATA_DIR: folders.create() };
  const keyrun = spawnKeyrun(settings, ["npm", "start", "--silent"]);
  running.push(keyrun);
  await keyrun.until(() => keyrun.stdout().includes("curl "));
  keyrun.kill("SIGTERM");
  await keyrun.exited;
  expect(keyrun.stderr()).toContain('"msg":"stopped"');
});

// What is refused, `test/settings/`, `test/app/` and `test/data-folder/` say. The sentences of all
// of it come to the operator in this way.
test("an unsafe start is refused with a sentence for each problem and exit code 1, without a stack or a value", async () => {
  const settings = { KEYRUN_PORT: "eighty", KEYRUN_LOG_LEVEL: "loud", KEYRUN_PROT: "1" };
  const outcome = await refused(settings);
  expectRefused(outcome, /KEYRUN_PROT is not a setting of Keyrun: did you mean KEYRUN_PORT\?/);
  const lines = outcome.stderr.trimEnd().split("\n");
  expect(lines.map((line) => line.startsWith("Keyrun can't start: KEYRUN_"))).toEqual([true, true, true]);
  expect(outcome.stderr).not.toMatch(/eighty|loud/);
});

test.each([
  // Reserved for documentation (RFC 5737), so no machine has it.
  { of: "an address", settings: { KEYRUN_HOST: "192.0.2.1" }, words: /192\.0\.2\.1:0 can't be bound/ },
  { of: "a file", settings: { KEYRUN_DATA_DIR: "/dev/null" }, words: /data folder .+ can't be used/ },
])("so is one that $of of the machine refuses", async ({ settings, words }) => {
  expectRefused(await refused(settings), words);
});

/** Starts Keyrun and returns its exit code and its output. */
async function refused(settings: Record<string, string>) {
  const keyrun = spawnKeyrun({
    KEYRUN_PORT: "0",
    KEYRUN_GRPC_PORT: "0",
    KEYRUN_DATA_DIR: join(folders.create(), "data"),
    ...settings,
  });
  running.push(keyrun);
  const { code } = await keyrun.exited;
  return { code, stdout: keyrun.stdout(), stderr: keyrun.stderr() };
}

function expectRefused(outcome: Awaited<ReturnType<typeof refused>>, sentence: RegExp): void {
  expect(outcome.stderr).toMatch(/^Keyrun can't start: /);
  expect(outcome.stderr).toMatch(sentence);
  expect(outcome).toMatchObject({ code: 1, stdout: "" });
  expect(outcome.stderr).not.toMatch(/\n\s+at /);
}

/** Types the lines into a new shell in the clone, which has no setting. */
function typed(lines: string) {
  return promisify(execFile)("sh", ["-c", lines], { cwd: repository, env: { PATH: process.env.PATH } });
}
