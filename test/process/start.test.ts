import { execFile } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, describe, expect, test } from "vitest";
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

test("start prints the address, how to create a key and how to run an app, and what is printed works", async () => {
  const keyrun = await serve(folders.create());
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

test("where nobody may read along, start prints no link but the command for one, which works", async () => {
  buildScreen();
  const keyrun = await serve(folders.create());
  const [command = ""] = /(?<=^ {2}).+ sign-in-link$/m.exec(keyrun.stdout()) ?? [];
  expect(command).toBe(`KEYRUN_DATA_DIR=${keyrun.dataDir} ./keyrun sign-in-link`);
  expect(keyrun.stdout() + keyrun.stderr()).not.toMatch(/sign-in\/link|code=/);
  const link = (await typed(command)).stdout.trim();
  expect((await createBrowser(keyrun.publicUrl).openLink(link)).status).toBe(204);
});

/** Types the lines into a new shell in the clone, which has no setting. */
function typed(lines: string) {
  return promisify(execFile)("sh", ["-c", lines], { cwd: repository, env: { PATH: process.env.PATH } });
}

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

test("a key is created, listed, verified, used and revoked from the command line", async () => {
  const { publicUrl, dataDir } = await serve(folders.create());
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

test("keys with another prefix are refused, start warns of it, and they work again with the old prefix", async () => {
  const dataDir = folders.create();
  let value = "";
  for (const [prefix, verdict] of [
    ["svc", "VALID"],
    ["service", "INVALID"],
    ["svc", "VALID"],
  ] as const) {
    const keyrun = await serve(dataDir, { KEYRUN_KEY_PREFIX: prefix });
    const command = (args: string[], stdin?: string) =>
      keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, args, stdin);
    if (value === "") value = (await command(["keys", "create", "--team", "demo"])).stdout.trim();
    expect((await command(["keys", "verify"], value)).stdout).toBe(`${verdict}\n`);
    keyrun.kill("SIGTERM");
    await keyrun.exited;
    const warnings = keyrun
      .stderr()
      .split("\n")
      .filter((line) => line.includes("KEYRUN_KEY_PREFIX"));
    expect(warnings).toHaveLength(verdict === "VALID" ? 0 : 1);
    if (verdict === "INVALID")
      expect(JSON.parse(warnings[0]!)).toMatchObject({ level: "warn", teamId: "demo" });
  }
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

describe("an unsafe start is refused with one sentence and exit code 1, without a stack:", () => {
  const expectRefused = (outcome: Awaited<ReturnType<typeof refused>>, sentence: RegExp) => {
    expect(outcome.stderr).toMatch(sentence);
    expect(outcome).toMatchObject({ code: 1, stdout: "" });
    expect(outcome.stderr).not.toMatch(/\n\s+at /);
  };

  test("a second process on the same folder", async () => {
    const { dataDir, publicUrl } = await serve(folders.create());
    expectRefused(
      await refused({ KEYRUN_DATA_DIR: dataDir }),
      /^Keyrun can't start: Another Keyrun already serves the data folder .+\n$/,
    );
    expect(await statusOf(`${publicUrl}/readyz`)).toBe(200);
  });

  test("a port in use, on either listener", async () => {
    const { publicUrl } = await serve(folders.create());
    const { port } = new URL(publicUrl);
    for (const name of ["KEYRUN_PORT", "KEYRUN_GRPC_PORT"]) {
      expectRefused(
        await refused({ [name]: port }),
        new RegExp(
          `^Keyrun can't start: 127\\.0\\.0\\.1:${port} is already in use: set ${name} to a free port`,
        ),
      );
    }
  });

  // 192.0.2.1 is reserved for documentation (RFC 5737), so no machine has it.
  test.each([
    ["KEYRUN_HOST", "192.0.2.1", {}],
    ["KEYRUN_HOST", "999.1.1.1", {}],
    ["KEYRUN_GRPC_HOST", "192.0.2.1", { KEYRUN_GRPC_PLAINTEXT: "true" }],
  ])("a %s of %s, which is not an address of this machine", async (name, host, settings) => {
    expectRefused(
      await refused({ ...settings, [name]: host }),
      new RegExp(
        `^Keyrun can't start: ${host}:0 can't be bound \\(E\\w+\\): set ${name} to an address of this machine`,
      ),
    );
  });

  test("a store whose secret is missing", async () => {
    const dataDir = folders.create();
    const first = await serve(dataDir);
    await keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, ["keys", "create", "--team", "demo"]);
    first.kill("SIGTERM");
    await first.exited;
    const secret = readFileSync(join(dataDir, "secret"), "utf8").trim();
    rmSync(join(dataDir, "secret"));
    const outcome = await refused({ KEYRUN_DATA_DIR: dataDir });
    expectRefused(outcome, /service secret that is not there \(version [0-9a-f]{8}\)/);
    expect((await refused({ KEYRUN_DATA_DIR: dataDir })).code).toBe(1);
    // A new secret would replace the missing one in the next backup.
    expect(existsSync(join(dataDir, "secret"))).toBe(false);
    // The advice in the message works.
    await serve(dataDir, { KEYRUN_SECRET: secret });
  });

  test.each([
    [
      "an unknown name",
      { KEYRUN_PROT: "1" },
      /KEYRUN_PROT is not a setting of Keyrun: did you mean KEYRUN_PORT\?/,
    ],
    ["a bad number", { KEYRUN_PORT: "eighty" }, /KEYRUN_PORT .+, such as 8088\./],
    ["an empty value", { KEYRUN_HOST: "" }, /KEYRUN_HOST is empty/],
    ["a short secret", { KEYRUN_SECRET: "c2hvcnQ" }, /KEYRUN_SECRET /],
    [
      "an open internal listener",
      { KEYRUN_GRPC_HOST: "0.0.0.0" },
      /KEYRUN_GRPC_HOST must be a loopback address/,
    ],
  ])("%s among the settings", async (_, settings, sentence) => {
    const outcome = await refused(settings);
    expectRefused(outcome, /^Keyrun can't start: /);
    expect(outcome.stderr).toMatch(sentence);
    for (const value of Object.values(settings)) {
      if (value.length > 3) expect(outcome.stderr.replace("0.0.0.0", "")).not.toContain(value);
    }
  });

  test.each([
    ["no file", "", /FILE must be the path of a file that this user may read \(ENOENT\)\./],
    ["a folder", "/", /FILE must be the path of a file that this user may read \(EISDIR\)\./],
    [
      "no key and no certificate",
      "/dev/null",
      /CERT_FILE holds no certificate: .+ KEYRUN_\w+KEY_FILE holds no private key: /,
    ],
  ])("files of TLS that hold %s", async (_, path, sentence) => {
    const file = path === "" ? join(folders.create(), "nowhere.pem") : path;
    const outcome = await refused({
      KEYRUN_GRPC_TLS_CERT_FILE: file,
      KEYRUN_GRPC_TLS_KEY_FILE: file,
      KEYRUN_GRPC_TLS_CLIENT_CA_FILE: file,
    });
    expectRefused(outcome, /^Keyrun can't start: KEYRUN_GRPC_TLS_CERT_FILE /);
    expect(outcome.stderr).toMatch(sentence);
    expect(outcome.stderr).toMatch(/KEYRUN_GRPC_TLS_CLIENT_CA_FILE/);
    expect(outcome.stderr).not.toMatch(/routines|no start line|error:/);
  });

  test("all problems are reported at once, one sentence each", async () => {
    const outcome = await refused({ KEYRUN_PORT: "x", KEYRUN_LOG_LEVEL: "loud", KEYRUN_NOTHING: "1" });
    expect(outcome.stderr.trimEnd().split("\n")).toHaveLength(3);
  });

  test("a data folder that is a file", async () => {
    const file = join(folders.create(), "file");
    closeSync(openSync(file, "w"));
    expectRefused(await refused({ KEYRUN_DATA_DIR: file }), /data folder .+ can't be used/);
  });

  test("a data folder whose lock can't be opened", async () => {
    const dataDir = folders.create();
    mkdirSync(join(dataDir, "keyrun.lock"));
    expectRefused(
      await refused({ KEYRUN_DATA_DIR: dataDir }),
      /^Keyrun can't start: The data folder .+ can't be used as a store .+ Set KEYRUN_DATA_DIR /,
    );
  });

  test.each([
    ["secret", "", /secret is damaged\. Restore it from a backup, or set KEYRUN_SECRET/],
    ["secret", "c2hvcnQ", /secret is damaged\. Restore it from a backup, or set KEYRUN_SECRET/],
    [
      "service-token",
      "",
      /service-token must be 32 to 512 characters .+ remove the file, and Keyrun makes a new one\./,
    ],
    ["service-token", "x".repeat(31), /service-token must be 32 to 512 characters .+ remove the file/],
    ["service-token", `${"x".repeat(31)} ä`, /service-token must be 32 to 512 characters .+ remove the file/],
  ])("a file %s that holds %j", async (name, text, sentence) => {
    const dataDir = folders.create();
    writeFileSync(join(dataDir, name), `${text}\n`);
    const outcome = await refused({ KEYRUN_DATA_DIR: dataDir });
    expectRefused(outcome, /^Keyrun can't start: The file /);
    expect(outcome.stderr).toMatch(sentence);
    if (text !== "") expect(outcome.stderr).not.toContain(text);
    expect(readFileSync(join(dataDir, name), "utf8")).toBe(`${text}\n`);
    // The advice in the message works.
    rmSync(join(dataDir, name));
    await serve(dataDir);
  });
});
