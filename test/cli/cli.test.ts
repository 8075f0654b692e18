import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer as createNetServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createCli } from "#src/cli/cli.ts";
import { smallKeyValue, startSmallKeyrun } from "../harness/small-keyrun.ts";

const token = "token-for-tests-only-0123456789-abcdef";
let dataDir: string;
let keyrun: Awaited<ReturnType<typeof startSmallKeyrun>>;

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "keyrun-cli-"));
  keyrun = await startSmallKeyrun(token);
  writeFileSync(join(dataDir, "service-token"), `${token}\n`, { mode: 0o600 });
  writeFileSync(join(dataDir, "grpc-address"), `127.0.0.1:${keyrun.port}\n`, { mode: 0o600 });
});

afterEach(async () => {
  await keyrun.close();
  rmSync(dataDir, { recursive: true });
});

interface Circumstances {
  env?: Record<string, string | undefined>;
  stdin?: string[];
  serve?: () => Promise<number>;
  nodeVersion?: string;
}

async function run(argv: string[], { env, stdin = [], serve, nodeVersion }: Circumstances = {}) {
  let [stdout, stderr] = ["", ""];
  const cli = createCli({
    env: { KEYRUN_DATA_DIR: dataDir, ...env },
    nodeVersion: nodeVersion ?? process.versions.node,
    stdin: Readable.from(stdin),
    stdout: {
      write: (text) => {
        stdout += text;
      },
    },
    stderr: {
      write: (text) => {
        stderr += text;
      },
    },
    readFile: (path) => readFileSync(path, "utf8"),
    serve: serve ?? (() => Promise.reject(new Error("not to be served"))),
  });
  const code = await cli.run(argv);
  return { code, stdout, stderr };
}

const linesOf = (text: string) => text.trimEnd().split("\n");

describe("keys", () => {
  test("create prints the key alone on standard output, and what people should know on standard error", async () => {
    const { code, stdout, stderr } = await run(["keys", "create", "--team", "demo", "--label", "ci"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${smallKeyValue(0)}\n` });
    expect(stderr).toContain(`Key ${"0".repeat(24)} (ci) of team demo is created.`);
    expect(stderr).not.toContain("S3cr3t");
    expect(keyrun.state.keys[0]).toMatchObject({ teamId: "demo", label: "ci" });
  });

  test("list fetches every page, aligns its columns, and shows revoked keys only when asked", async () => {
    for (const label of ["first", "", "日本", "🗝️ long label here", "fifth"]) {
      await run(["keys", "create", "--team", "demo", "--label", label]);
    }
    await run(["keys", "revoke", "--team", "demo", "0".repeat(24)]);
    const active = await run(["keys", "list", "--team", "demo"]);
    expect(linesOf(active.stdout)).toHaveLength(1 + 4);
    expect(linesOf(active.stdout)[0]).toMatch(/^LABEL +KEY +ID +CREATED +LAST USED$/);
    expect(active.stdout).toContain("2026-01-02T03:04:05Z  never");
    expect(active.stderr).toBe("4 of at most 50 active keys.\n");
    const column = [...linesOf(active.stdout)[0]!].join("").indexOf("KEY");
    for (const line of linesOf(active.stdout).slice(1)) {
      expect([...line].slice(column, column + 8).join("")).toBe("svc_0000");
    }
    const all = await run(["keys", "list", "--team", "demo", "--revoked"]);
    expect(linesOf(all.stdout)).toHaveLength(1 + 5);
    expect(linesOf(all.stdout)[0]).toMatch(/LAST USED +REVOKED$/);
    expect(linesOf(all.stdout)[1]).toMatch(/^first .* 2026-01-02T03:04:05Z$/);
  });

  test("list --json is one response message that holds every page", async () => {
    for (const label of ["a", "b", "c"]) await run(["keys", "create", "--team", "demo", "--label", label]);
    const { stdout } = await run(["keys", "list", "--team", "demo", "--json"]);
    const message = JSON.parse(stdout);
    expect(message.keys.map((key: { label: string }) => key.label)).toEqual(["a", "b", "c"]);
    expect(message).toMatchObject({ nextPageToken: "", activeKeyCount: 3, activeKeyCountMax: 50 });
    expect(message.keys[0]).toMatchObject({ state: "KEY_STATE_ACTIVE", revokedBy: "" });
  });

  test("verify reads the key from standard input, spends nothing, and exits 0 for VALID alone", async () => {
    await run(["keys", "create", "--team", "demo"]);
    const whole = smallKeyValue(0);
    const valid = await run(["keys", "verify"], { stdin: [whole.slice(0, 9), `${whole.slice(9)}\r\nmore`] });
    expect(valid).toMatchObject({ code: 0, stdout: "VALID\n" });
    expect(valid.stderr).toBe(`Key ${"0".repeat(24)} of team demo, plan free.\n`);
    expect(await run(["keys", "verify"], { stdin: ["svc_x"] })).toEqual({
      code: 1,
      stdout: "INVALID\n",
      stderr: "",
    });
    await run(["keys", "revoke", "--team", "demo", "0".repeat(24)]);
    const revoked = await run(["keys", "verify", "--json"], { stdin: [whole] });
    expect(revoked.code).toBe(1);
    expect(JSON.parse(revoked.stdout)).toMatchObject({ verdict: "VERDICT_REVOKED", teamId: "demo" });
    expect(keyrun.state.verifiedCosts).toEqual([0, 0, 0]);
  });

  test("verify without a key says so, and endless input is cut", async () => {
    expect(await run(["keys", "verify"], { stdin: ["\n"] })).toMatchObject({
      code: 1,
      stderr: "There is no key on standard input: send one line with the key.\n",
    });
    expect(await run(["keys", "verify"], { stdin: Array(100).fill("x".repeat(1000)) })).toMatchObject({
      code: 1,
    });
  });
});

describe("teams, members and preview", () => {
  test("a team is created on a plan, listed, and put on another", async () => {
    expect(await run(["teams", "create", "acme", "--name", "Acme Ltd", "--plan", "pro"])).toMatchObject({
      code: 0,
    });
    expect(await run(["teams", "create", "demo"])).toMatchObject({ code: 0 });
    expect(await run(["teams", "set-plan", "acme", "enterprise"])).toMatchObject({
      code: 0,
      stdout: "Team acme is on the plan enterprise now.\n",
    });
    expect(linesOf((await run(["teams", "list"])).stdout)).toEqual([
      "ID    NAME      PLAN        CREATED",
      "acme  Acme Ltd  enterprise  2026-01-02T03:04:05Z",
      "demo            free        2026-01-02T03:04:05Z",
    ]);
  });

  test("members and preview access come and go, and lists have every page", async () => {
    for (const email of ["Ada@example.com", "bob@example.com", "cyd@example.com"]) {
      await run(["members", "add", "demo", email]);
      await run(["preview", "grant", email]);
    }
    expect((await run(["members", "remove", "demo", "bob@example.com"])).code).toBe(0);
    expect((await run(["preview", "withdraw", "bob@example.com"])).stdout).toBe(
      "bob@example.com has no preview access.\n",
    );
    expect(linesOf((await run(["members", "list", "demo"])).stdout)).toEqual([
      "EMAIL            ADDED",
      "ada@example.com  2026-01-02T03:04:05Z",
      "cyd@example.com  2026-01-02T03:04:05Z",
    ]);
    await run(["preview", "grant", "dan@example.com"]);
    const { stdout } = await run(["preview", "list", "--json"]);
    expect(JSON.parse(stdout)).toEqual({
      emails: ["Ada@example.com", "cyd@example.com", "dan@example.com"],
      nextPageToken: "",
    });
  });
});

describe("apps", () => {
  test("each kind of backend is created as its options say, and listed", async () => {
    const headers = ["--header", "Authorization: Bearer abc:def", "--header", "x-a:b"];
    await run(["apps", "create", "echo", "--backend", "echo"]);
    await run([
      "apps",
      "create",
      "web",
      "--backend",
      "http",
      "--url",
      "http://127.0.0.1:9000/run",
      ...headers,
      "--timeout",
      "1.5s",
    ]);
    await run([
      "apps",
      "create",
      "rpc",
      "--backend",
      "grpc",
      "--target",
      "127.0.0.1:9001",
      "--tls",
      "--timeout",
      "250ms",
      "--team",
      "demo",
      "--team",
      "acme",
      "--name",
      "R",
    ]);
    expect(keyrun.state.apps.map(({ backend }) => backend?.kind)).toMatchObject([
      { case: "echo" },
      {
        case: "http",
        value: {
          url: "http://127.0.0.1:9000/run",
          headers: [
            { name: "Authorization", value: "Bearer abc:def" },
            { name: "x-a", value: "b" },
          ],
        },
      },
      { case: "grpc", value: { target: "127.0.0.1:9001", tls: true } },
    ]);
    expect(linesOf((await run(["apps", "list"])).stdout)).toEqual([
      "ID    NAME  BACKEND                         TIMEOUT  TEAMS",
      "echo        echo                            -        all",
      "web         http http://127.0.0.1:9000/run  1.5s     all",
      "rpc   R     grpc 127.0.0.1:9001 (TLS)       0.25s    demo,acme",
    ]);
    expect(await run(["apps", "delete", "web", "--json"])).toMatchObject({ code: 0, stdout: "{}\n" });
    expect(keyrun.state.apps.map(({ id }) => id)).toEqual(["echo", "rpc"]);
  });

  test.each([
    ["--backend", "http"],
    ["--backend", "grpc"],
    ["--backend", "echo", "--url", "http://x"],
    ["--backend", "http", "--url", "http://x", "--tls"],
    ["--backend", "echo", "--timeout", "30"],
    ["--backend", "echo", "--timeout", "-1s"],
    ["--backend", "mail"],
    ["--name", "x"],
  ])("wrong use: apps create x %s %s %s %s", async (...options) => {
    const { code, stdout, stderr } = await run(["apps", "create", "x", ...options]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/--(url|target|timeout|backend|tls)/);
    expect(keyrun.state.apps).toEqual([]);
  });

  test("a header that is none is never repeated: it is most often a credential", async () => {
    const options = ["--backend", "http", "--url", "http://x", "--header", "Bearer hunter2"];
    const { code, stderr } = await run(["apps", "create", "x", ...options]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: "--header must be like 'Name: value'.\n" });
  });
});

describe("exit codes and words", () => {
  test.each([
    ["keys", "create list revoke verify"],
    ["teams", "create list set-plan"],
    ["members", "add remove list"],
    ["preview", "grant withdraw list"],
    ["apps", "create list delete"],
    ["sign-in-link", ""],
    ["doctor", ""],
  ])("%s %s take --json, each of them", async (group, commands) => {
    for (const command of commands.split(" ")) {
      const words = command === "" ? [group] : [group, command];
      expect((await run([...words, "--help"])).stdout).toContain("--json");
    }
  });

  test.each([
    [[]],
    [["keys"]],
    [["nope"]],
    [["keys", "list"]],
    [["teams", "create"]],
    [["teams", "list", "more"]],
    [["serve", "--json"]],
    [["teams", "set-plan", "demo", "gold"]],
    [["sign-in-link", "extra"]],
  ])("wrong use of %j exits 2 with words on standard error alone", async (argv) => {
    const { code, stdout, stderr } = await run(argv);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr.length).toBeGreaterThan(20);
  });

  test.each([[["--help"]], [["keys", "--help"]], [["help", "keys"]]])(
    "%j is no failure, and names the safe command",
    async (argv) => {
      const { code, stdout } = await run(argv);
      expect(code).toBe(0);
      expect(stdout).toContain("npx --no-install keyrun");
    },
  );

  test("a key among the arguments is not repeated whole", async () => {
    const { stderr } = await run(["keys", smallKeyValue(0)]);
    expect(stderr).toContain("svc_0000");
    expect(stderr).not.toContain("S3cr3t");
  });

  test("a refusal is told in the server's own words, without a stack", async () => {
    await run(["teams", "create", "demo"]);
    const { code, stdout, stderr } = await run(["teams", "create", "demo"]);
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: "",
      stderr: "There is a team of this id already. Choose another id.\n",
    });
  });

  test("serve is what main.ts gives, and its status is the command's", async () => {
    expect((await run(["serve"], { serve: () => Promise.resolve(0) })).code).toBe(0);
    expect((await run(["serve"], { serve: () => Promise.resolve(7) })).code).toBe(7);
    const failed = await run(["serve"], { serve: () => Promise.reject(new Error("the port is taken")) });
    expect(failed).toEqual({ code: 1, stdout: "", stderr: "The command failed: the port is taken\n" });
  });
});

describe("finding the server", () => {
  const teamsList = (env: Record<string, string>) => run(["teams", "list"], { env });
  const failsWith = async (env: Record<string, string>, words: RegExp) => {
    const { code, stdout, stderr } = await teamsList(env);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(words);
    expect(linesOf(stderr)).toHaveLength(1);
  };

  test("KEYRUN_GRPC_PORT goes before the written address, unless it is 0", async () => {
    writeFileSync(join(dataDir, "grpc-address"), "127.0.0.1:1");
    expect((await teamsList({ KEYRUN_GRPC_PORT: String(keyrun.port) })).code).toBe(0);
    await failsWith({ KEYRUN_GRPC_PORT: "0" }, /127\.0\.0\.1:1/);
  });

  test("a listener on every address is reached through loopback", async () => {
    writeFileSync(join(dataDir, "grpc-address"), `0.0.0.0:${keyrun.port}`);
    expect((await teamsList({})).code).toBe(0);
  });

  test("the token of the settings goes before the one in the data folder", async () => {
    writeFileSync(join(dataDir, "service-token"), "not this one");
    expect((await teamsList({ KEYRUN_SERVICE_TOKEN: token })).code).toBe(0);
    await failsWith({}, /^Keyrun at 127\.0\.0\.1:\d+ refused the service token/);
  });

  test("a server that is not running is told with how to start it", async () => {
    await keyrun.close();
    await failsWith(
      {},
      new RegExp(`^Keyrun is not running at 127\\.0\\.0\\.1:${keyrun.port}: start it with \`npm start\`\\.`),
    );
    keyrun = await startSmallKeyrun(token);
  });

  test("a data folder that is not there is told, and how to name the right one", async () => {
    await failsWith(
      { KEYRUN_DATA_DIR: join(dataDir, "nowhere") },
      /nowhere: start it with `npm start`, or set KEYRUN_DATA_DIR/,
    );
  });

  test("no token, or a damaged address, is told", async () => {
    writeFileSync(join(dataDir, "grpc-address"), "evil@host/");
    await failsWith({}, /grpc-address is damaged/);
    rmSync(join(dataDir, "service-token"));
    await failsWith({ KEYRUN_GRPC_PORT: String(keyrun.port) }, /no service token in the data folder/);
  });

  test("wrong settings are told, all of them", async () => {
    const { code, stderr } = await teamsList({ KEYRUN_PORT: "x", KEYRUN_NOPE: "y" });
    expect(code).toBe(1);
    expect(linesOf(stderr)).toHaveLength(2);
  });

  const strangers: Record<string, () => Server> = {
    "speaks HTTP/1.1": () => createHttpServer((_, response) => response.end("hi")),
    "hangs up": () => createNetServer((socket) => socket.destroy()),
  };
  test.each(Object.entries(strangers))(
    "a stranger at the address who %s is told in a sentence",
    async (_, start) => {
      const stranger = start().listen(0, "127.0.0.1");
      await once(stranger, "listening");
      const port = String((stranger.address() as AddressInfo).port);
      await failsWith({ KEYRUN_GRPC_PORT: port }, /is not Keyrun's internal listener, or it hung up/);
      stranger.close();
    },
  );
});

describe("doctor", () => {
  test("with all well, says so line by line and exits 0", async () => {
    const { code, stdout, stderr } = await run(["doctor"]);
    expect(linesOf(stdout).map((line) => line.split(":")[0])).toEqual([
      "ok     node",
      "ok     settings",
      "ok     data folder",
      "ok     server",
      "ok     token",
    ]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });

  test("--json is what was found, in one object, with the same exit status", async () => {
    const well = await run(["doctor", "--json"]);
    expect(JSON.parse(well.stdout).checks.slice(0, 2)).toEqual([
      { name: "node", ok: true, message: process.versions.node },
      { name: "settings", ok: true, message: "all are valid" },
    ]);
    expect(well).toMatchObject({ code: 0, stderr: "" });
    const { code, stdout } = await run(["doctor", "--json"], { env: { KEYRUN_PORT: "x" } });
    expect(code).toBe(1);
    expect(JSON.parse(stdout).checks.at(-1)).toMatchObject({
      name: "settings",
      ok: false,
      message: expect.stringContaining("KEYRUN_PORT"),
    });
  });

  test("wrong settings are told one a line", async () => {
    const { code, stdout } = await run(["doctor"], { env: { KEYRUN_PORT: "x", KEYRUN_PROT: "1" } });
    expect(code).toBe(1);
    expect(linesOf(stdout).filter((line) => line.startsWith("wrong  settings: KEYRUN_"))).toHaveLength(2);
  });

  test.each<[string, Circumstances, () => unknown, RegExp]>([
    ["an old Node", { nodeVersion: "24.14.1" }, () => {}, /^wrong {2}node: .*24\.15/m],
    ["no server", { env: { KEYRUN_GRPC_PORT: "1" } }, () => {}, /^wrong {2}server: .*`npm start`/m],
    [
      "a stopping server",
      {},
      () => (keyrun.state.serving = false),
      /^wrong {2}server: .*starting or stopping/m,
    ],
    [
      "a wrong token",
      { env: { KEYRUN_SERVICE_TOKEN: "x".repeat(32) } },
      () => {},
      /^wrong {2}token: .*refused/m,
    ],
    [
      "a token that others can read",
      {},
      () => {
        rmSync(join(dataDir, "service-token"));
        writeFileSync(join(dataDir, "service-token"), token, { mode: 0o644 });
      },
      /^wrong {2}data folder: .*`chmod 600`/m,
    ],
    [
      "no data folder",
      { env: { KEYRUN_DATA_DIR: "/nowhere/at/all" } },
      () => {},
      /^wrong {2}data folder: .*`npm start`/m,
    ],
  ])("%s is told with its fix, and exits 1", async (_, circumstances, arrange, words) => {
    arrange();
    const { code, stdout } = await run(["doctor"], circumstances);
    expect(stdout).toMatch(words);
    expect(code).toBe(1);
  });
});
