import { chmodSync, cpSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import stringWidth from "string-width";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { serveHttp, serveTcp } from "../harness/app-backends.ts";
import { closedAtEnd, tempFolders } from "../harness/closed-at-end.ts";
import { type Circumstances, runCommand } from "../harness/command-line.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const folders = tempFolders();
/** Shared by the tests that do not depend on whole lists. */

const shared = closedAtEnd(await startKeyrun());

/** Runs commands on this data folder. */
function commandsIn(dataDir: string) {
  return (argv: readonly string[], { env, ...others }: Circumstances = {}) =>
    runCommand(argv, { env: { KEYRUN_DATA_DIR: dataDir, ...env }, ...others });
}

const run: ReturnType<typeof commandsIn> = (...args) => commandsIn(shared.config.dataDir)(...args);

/** A Keyrun for one test, with nothing but the demo team and the echo app of a first start. */
async function ownKeyrun() {
  const clock = createManualClock({ monotonicMs: 0, unixMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678) });
  const keyrun = await startKeyrun({ clock });
  onTestFinished(() => keyrun.close());
  return { keyrun, clock, run: commandsIn(keyrun.config.dataDir) };
}

const linesOf = (text: string) => text.trimEnd().split("\n");

describe("keys", () => {
  test("create prints the key alone on standard output, and what people should know on standard error", async () => {
    const { code, stdout, stderr } = await run(["keys", "create", "--team", "demo", "--label", "ci"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^svc_[0-9a-z]{24}\.[0-9A-Za-z]{49}\n$/);
    const [id, secret] = stdout.trim().slice("svc_".length).split(".") as [string, string];
    expect(stderr).toContain(`Key ${id} (ci) of team demo is created.`);
    expect(stderr).not.toContain(secret);
    const { keys } = await shared.keys.listKeys({ teamId: "demo" });
    expect(keys.find((key) => key.id === id)).toMatchObject({ teamId: "demo", label: "ci" });
  });

  test("list aligns its columns, and shows revoked keys only when asked", async () => {
    const { keyrun, clock, run } = await ownKeyrun();
    for (const label of ["first", "", "日本", "🗝️ long label here", "fifth"]) {
      await run(["keys", "create", "--team", "demo", "--label", label]);
      clock.advance(1_000);
    }
    const first = (await keyrun.keys.listKeys({ teamId: "demo" })).keys.at(-1)!;
    const revoked = await run(["keys", "revoke", "--team", "demo", first.id]);
    expect(revoked.stdout).toBe(`Key ${first.id} was revoked at 2026-01-02T03:04:10Z.\n`);
    const active = await run(["keys", "list", "--team", "demo"]);
    expect(linesOf(active.stdout)).toHaveLength(1 + 4);
    expect(linesOf(active.stdout)[0]).toMatch(/^LABEL +KEY +ID +CREATED +BY +LAST USED$/);
    expect(linesOf(active.stdout)[1]).toMatch(/^fifth .* 2026-01-02T03:04:09Z {2}\S.* {2}never$/);
    expect(active.stderr).toBe("4 of at most 50 active keys.\n");
    const audit = await run(["audit", "--team", "demo", "--target", first.id, "--since", "3650d", "--json"]);
    const actions = JSON.parse(audit.stdout).events.map(({ action }: { action: string }) => action);
    expect(actions).toEqual(["key.create", "key.revoke"]);
    const all = await run(["keys", "list", "--team", "demo", "--revoked"]);
    expect(linesOf(all.stdout)).toHaveLength(1 + 5);
    expect(linesOf(all.stdout)[0]).toMatch(/LAST USED +REVOKED +REVOKED BY$/);
    expect(linesOf(all.stdout).at(-1)).toMatch(
      /^first .* 2026-01-02T03:04:05Z {2}\S.* {2}never {6}2026-01-02T03:04:10Z {2}\S/,
    );
    // A column begins at the same place of the terminal in every line.
    for (const lines of [linesOf(active.stdout), linesOf(all.stdout)]) {
      const begin = stringWidth(lines[0]!.split("KEY")[0]!);
      for (const line of lines.slice(1)) expect(stringWidth(line.split(/svc_/)[0]!)).toBe(begin);
    }
  });

  test("list --json is one response message", async () => {
    const { clock, run } = await ownKeyrun();
    for (const label of ["a", "b", "c"]) {
      await run(["keys", "create", "--team", "demo", "--label", label]);
      clock.advance(1_000);
    }
    const { stdout } = await run(["keys", "list", "--team", "demo", "--json"]);
    const message = JSON.parse(stdout);
    expect(message.keys.map((key: { label: string }) => key.label)).toEqual(["c", "b", "a"]);
    expect(message).toMatchObject({ nextPageToken: "", activeKeyCount: 3, activeKeyCountMax: 50 });
    expect(message.keys[0]).toMatchObject({ state: "KEY_STATE_ACTIVE", revokedBy: "" });
  });

  test("list finds keys by a text, and those that nobody has used for a time", async () => {
    const { keyrun, run } = await ownKeyrun();
    for (const label of ["deploy-eu", "deploy-us", "laptop"]) {
      await run(["keys", "create", "--team", "demo", "--label", label]);
    }
    const labels = async (...options: string[]) => {
      const { stdout } = await run(["keys", "list", ...options, "--json"]);
      return JSON.parse(stdout)
        .keys.map(({ label }: { label: string }) => label)
        .sort();
    };
    expect(await labels("--search", "DEPLOY")).toEqual(["deploy-eu", "deploy-us"]);
    // The keys are from January 2026 by the server's clock, and from long ago by the command's.
    expect(await labels("--unused-for", "1d")).toEqual(["deploy-eu", "deploy-us", "laptop"]);
    expect(await labels("--unused-for", "99999d")).toEqual([]);
    const [key] = (await keyrun.keys.listKeys({ teamId: "demo" })).keys;
    await run(["keys", "revoke", key!.id]);
    expect(await labels("--unused-for", "1d", "--revoked")).toHaveLength(2);
    for (const wrong of ["90", "d", "-1d", "0d", "1w", "1.5d"]) {
      expect((await run(["keys", "list", `--unused-for=${wrong}`])).code).toBe(2);
    }
  });

  test("verify reads the key from standard input, spends nothing, and exits 0 for VALID alone", async () => {
    const teamId = await shared.newTeam();
    const { id, value } = await shared.newKey(teamId);
    const chunks = [value.slice(0, 9), `${value.slice(9)}\r\nmore`];
    const valid = await run(["keys", "verify"], { stdin: chunks });
    expect(valid).toMatchObject({ code: 0, stdout: "VALID\n" });
    expect(valid.stderr).toBe(`Key ${id} of team ${teamId}, plan free.\n`);
    expect(await run(["keys", "verify"], { stdin: ["svc_x"] })).toEqual({
      code: 1,
      stdout: "INVALID\n",
      stderr: "",
    });
    await run(["keys", "revoke", "--team", teamId, id]);
    const revoked = await run(["keys", "verify", "--json"], { stdin: [value] });
    expect(revoked.code).toBe(1);
    expect(JSON.parse(revoked.stdout)).toMatchObject({ verdict: "VERDICT_REVOKED", teamId });
    const { rateLimit } = await shared.teams.getRateLimit({ teamId });
    expect(rateLimit).toMatchObject({ limit: 60, remaining: 60 });
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
    const { run } = await ownKeyrun();
    expect(await run(["teams", "create", "acme", "--name", "Acme Ltd", "--plan", "pro"])).toMatchObject({
      code: 0,
    });
    expect(await run(["teams", "create", "bare"])).toMatchObject({ code: 0 });
    expect(await run(["teams", "set-plan", "acme", "enterprise"])).toMatchObject({
      code: 0,
      stdout: "Team acme is on the plan enterprise now.\n",
    });
    expect(linesOf((await run(["teams", "list"])).stdout)).toEqual([
      "ID    NAME      PLAN        CREATED",
      "acme  Acme Ltd  enterprise  2026-01-02T03:04:05Z",
      "bare  bare      free        2026-01-02T03:04:05Z",
      "demo  Demo      free        2026-01-02T03:04:05Z",
    ]);
  });

  test("members and preview access come and go", async () => {
    const { run } = await ownKeyrun();
    await run(["teams", "create", "acme"]);
    for (const email of ["Ada@example.com", "bob@example.com", "cyd@example.com"]) {
      await run(["members", "add", "acme", email]);
      await run(["preview", "grant", email]);
    }
    expect((await run(["members", "remove", "acme", "bob@example.com"])).code).toBe(0);
    expect((await run(["preview", "withdraw", "bob@example.com"])).stdout).toBe(
      "bob@example.com has no preview access.\n",
    );
    expect(linesOf((await run(["members", "list", "acme"])).stdout)).toEqual([
      "EMAIL            ADDED",
      "ada@example.com  2026-01-02T03:04:05Z",
      "cyd@example.com  2026-01-02T03:04:05Z",
    ]);
    await run(["preview", "grant", "dan@example.com"]);
    const { stdout } = await run(["preview", "list", "--json"]);
    expect(JSON.parse(stdout)).toEqual({
      emails: ["ada@example.com", "cyd@example.com", "dan@example.com", "owner@localhost"],
      nextPageToken: "",
    });
  });
});

describe("apps", () => {
  test("each kind of backend is created as its options say, and listed", async () => {
    const { keyrun, run } = await ownKeyrun();
    await run(["teams", "create", "acme"]);
    await run(["apps", "create", "say", "--backend", "echo"]);
    await run([
      "apps",
      "create",
      "web",
      "--backend",
      "http",
      "--url",
      "http://127.0.0.1:9000/run",
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
    const { apps } = await keyrun.apps.listApps({});
    expect(apps.map(({ backend }) => backend?.kind)).toMatchObject([
      { case: "echo" },
      { case: "grpc", value: { target: "127.0.0.1:9001", tls: true } },
      { case: "echo" },
      { case: "http", value: { url: "http://127.0.0.1:9000/run" } },
    ]);
    expect(linesOf((await run(["apps", "list"])).stdout)).toEqual([
      "ID    NAME  BACKEND                         TIMEOUT  TEAMS",
      "echo  Echo  echo                            30s      all",
      "rpc   R     grpc 127.0.0.1:9001 (TLS)       0.25s    demo,acme",
      "say   say   echo                            30s      all",
      "web   web   http http://127.0.0.1:9000/run  1.5s     all",
    ]);
    expect(await run(["apps", "delete", "web", "--yes", "--json"])).toMatchObject({
      code: 0,
      stdout: "{}\n",
    });
    expect((await keyrun.apps.listApps({})).apps.map(({ id }) => id)).toEqual(["echo", "rpc", "say"]);
  });

  test("an HTTP backend gets the headers that the options name", async () => {
    const { keyrun, run } = await ownKeyrun();
    const received: unknown[] = [];
    await using web = await serveHttp(({ headers }, response) => {
      received.push(headers.authorization, headers["x-a"]);
      response.end(JSON.stringify({ text: "done" }));
    });
    const headers = ["--header", "Authorization: Bearer abc:def", "--header", "x-a:b"];
    await run(["apps", "create", "web", "--backend", "http", "--url", web.backend.url, ...headers]);
    const { value } = await keyrun.newKey("demo");
    expect((await restRun(keyrun.publicUrl, { value, appId: "web" })).status).toBe(200);
    expect(received).toEqual(["Bearer abc:def", "b"]);
  });

  test.each([
    ["--backend", "http"],
    ["--backend", "grpc"],
    ["--backend", "echo", "--url", "http://x"],
    ["--backend", "http", "--url", "http://x", "--tls"],
    ["--backend", "echo", "--timeout", "30"],
    ["--backend", "echo", "--timeout", "-1s"],
    ["--backend", "echo", "--stream-timeout", "60"],
    ["--backend", "echo", "--background-timeout", ""],
    ["--backend", "mail"],
    ["--name", "x"],
  ])("wrong use: apps create x %s %s %s %s", async (...options) => {
    const { code, stdout, stderr } = await run(["apps", "create", "x", ...options]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/--(url|target|timeout|stream-timeout|background-timeout|backend|tls)/);
    expect((await shared.apps.listApps({})).apps.map(({ id }) => id)).toEqual(["echo"]);
  });

  test("a header that is none is never repeated: it is most often a credential", async () => {
    const options = ["--backend", "http", "--url", "http://x", "--header", "Bearer hunter2"];
    const { code, stderr } = await run(["apps", "create", "x", ...options]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: "--header must be like 'Name: value'.\n" });
  });
});

describe("lists longer than a page", () => {
  const more = Array.from({ length: 100 }, (_, number) => `more-${number}`);
  const emails = more.map((name) => `${name}@example.com`);
  const demo = { teamId: "demo" };
  let keyrun: Keyrun;

  beforeAll(async () => {
    keyrun = await startKeyrun({ settings: { KEYRUN_KEYS_PER_TEAM_MAX: "200" } });
    const { teams, apps, keys } = keyrun;
    const backend = { kind: { case: "echo", value: {} } } as const;
    await Promise.all([
      ...more.map((id) => teams.createTeam({ team: { id } })),
      ...more.map((id) => apps.createApp({ app: { id, backend } })),
      ...emails.map((email) => teams.addMember({ ...demo, email })),
      ...emails.map((email) => teams.setPreviewAccess({ email, granted: true })),
      ...[...more, "last"].map((label) => keys.createKey({ ...demo, label })),
    ]);
  });

  afterAll(() => keyrun.close());

  test.each([
    { list: ["teams", "list"], name: "teams" },
    { list: ["apps", "list"], name: "apps" },
    { list: ["members", "list", "demo"], name: "members" },
    { list: ["preview", "list"], name: "emails" },
    { list: ["keys", "list", "--team", "demo"], name: "keys" },
  ])("$list has every entry, as a table and as one JSON message", async ({ list, name }) => {
    const run = commandsIn(keyrun.config.dataDir);
    expect(new Set(linesOf((await run(list)).stdout)).size).toBe(1 + 101);
    const message = JSON.parse((await run([...list, "--json"])).stdout);
    expect(message[name]).toHaveLength(101);
    expect(message.nextPageToken).toBe("");
  });
});

describe("exit codes and words", () => {
  test.each([
    ["keys", "create list revoke verify"],
    ["teams", "create list set-plan delete"],
    ["members", "add remove list"],
    ["preview", "grant withdraw list"],
    ["apps", "create update show list delete"],
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
      expect(stdout).toContain("./keyrun");
    },
  );

  test("a key among the arguments is not repeated whole", async () => {
    const value = shared.unknownKey();
    const [shown, secret] = value.split(".") as [string, string];
    const { stderr } = await run(["keys", value]);
    expect(stderr).toContain(shown);
    expect(stderr).not.toContain(secret);
  });

  test("a refusal is one sentence on standard error, without a stack", async () => {
    const { code, stdout, stderr } = await run(["teams", "create", "demo"]);
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: "",
      stderr: "There is already a team `demo`. Choose another id, or see all with `./keyrun teams list`.\n",
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
  /** Copies of the files that the running server wrote for commands: a test may damage them. */
  let dataDir: string;
  let port: string;

  beforeEach(() => {
    dataDir = folders.create();
    for (const name of ["service-token", "grpc-address"]) {
      cpSync(join(shared.config.dataDir, name), join(dataDir, name));
    }
    port = String(shared.app.internalAddress.port);
  });

  const teamsList = (env: Record<string, string>) => commandsIn(dataDir)(["teams", "list"], { env });
  const failsWith = async (env: Record<string, string>, words: RegExp) => {
    const { code, stdout, stderr } = await teamsList(env);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(words);
    expect(linesOf(stderr)).toHaveLength(1);
  };

  test("KEYRUN_GRPC_PORT goes before the written address, unless it is 0", async () => {
    writeFileSync(join(dataDir, "grpc-address"), "127.0.0.1:1");
    expect((await teamsList({ KEYRUN_GRPC_PORT: port })).code).toBe(0);
    await failsWith({ KEYRUN_GRPC_PORT: "0" }, /127\.0\.0\.1:1/);
  });

  test("a listener on every address is reached through loopback", async () => {
    writeFileSync(join(dataDir, "grpc-address"), `0.0.0.0:${port}`);
    expect((await teamsList({})).code).toBe(0);
  });

  test("the token of the settings goes before the one in the data folder", async () => {
    writeFileSync(join(dataDir, "service-token"), "not this one");
    expect((await teamsList({ KEYRUN_SERVICE_TOKEN: shared.serviceToken })).code).toBe(0);
    await failsWith({}, /^Keyrun at 127\.0\.0\.1:\d+ refused the service token/);
  });

  test("without a running server the error says how to start it", async () => {
    const stopped = await startKeyrun();
    const address = `127.0.0.1:${stopped.app.internalAddress.port}`;
    await stopped.close();
    // A killed server leaves this file behind.
    writeFileSync(join(dataDir, "grpc-address"), address);
    await failsWith({}, new RegExp(`^Keyrun is not running at ${address}: start it with \`npm start\`\\.`));
  });

  test("without a data folder the error says how to name the right one", async () => {
    await failsWith(
      { KEYRUN_DATA_DIR: join(dataDir, "nowhere") },
      /^No running Keyrun .*nowhere: start Keyrun with `npm start`, or set KEYRUN_DATA_DIR/,
    );
  });

  test("a missing token and a damaged address are reported", async () => {
    writeFileSync(join(dataDir, "grpc-address"), "evil@host/");
    await failsWith({}, /grpc-address is damaged/);
    rmSync(join(dataDir, "service-token"));
    await failsWith({ KEYRUN_GRPC_PORT: port }, /no service token in the data folder/);
  });

  test("wrong settings are reported, all of them", async () => {
    const { code, stderr } = await teamsList({ KEYRUN_PORT: "x", KEYRUN_NOPE: "y" });
    expect(code).toBe(1);
    expect(linesOf(stderr)).toHaveLength(2);
  });

  test("a server that speaks HTTP/1.1 is reported in a sentence", async () => {
    await using web = await serveHttp((_, response) => response.end("hi"));
    const webPort = new URL(web.backend.url).port;
    await failsWith({ KEYRUN_GRPC_PORT: webPort }, /is not Keyrun's internal listener, or it hung up/);
  });

  test("a server that hangs up is reported in a sentence", async () => {
    await using other = await serveTcp((socket) => socket.destroy());
    await failsWith(
      { KEYRUN_GRPC_PORT: String(other.port) },
      /is not Keyrun's internal listener, or it hung up/,
    );
  });
});

describe("doctor", () => {
  const withSecret = () => ({ env: { KEYRUN_SECRET: shared.config.secrets![0]!.toString("base64url") } });

  test("with all well, says so line by line and exits 0", async () => {
    const { code, stdout, stderr } = await run(["doctor"], withSecret());
    expect(linesOf(stdout).map((line) => line.split(":")[0])).toEqual([
      "ok     node",
      "ok     settings",
      "ok     data folder",
      "ok     store",
      "ok     secret",
      "ok     token file",
      "ok     server",
      "ok     token",
    ]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });

  test("--json is what was found, in one object, with the same exit status", async () => {
    const well = await run(["doctor", "--json"], withSecret());
    expect(JSON.parse(well.stdout).checks.slice(0, 2)).toEqual([
      { name: "node", ok: true, message: process.versions.node },
      { name: "settings", ok: true, message: "all are valid" },
    ]);
    expect(well).toMatchObject({ code: 0, stderr: "" });
    const wrongPort = { env: { ...withSecret().env, KEYRUN_PORT: "x" } };
    const { code, stdout } = await run(["doctor", "--json"], wrongPort);
    expect(code).toBe(1);
    const wrong = JSON.parse(stdout).checks.filter((check: { ok: boolean }) => !check.ok);
    const message = expect.stringContaining("KEYRUN_PORT");
    expect(wrong).toEqual([{ name: "settings", ok: false, message }]);
  });

  test("wrong settings are reported one a line", async () => {
    const { code, stdout } = await run(["doctor"], { env: { KEYRUN_PORT: "x", KEYRUN_PROT: "1" } });
    expect(code).toBe(1);
    expect(linesOf(stdout).filter((line) => line.startsWith("wrong  settings: KEYRUN_"))).toHaveLength(2);
  });

  test.each<[string, Circumstances, RegExp]>([
    ["an old Node", { nodeVersion: "24.14.1" }, /^wrong {2}node: .*24\.15/m],
    ["no server", { env: { KEYRUN_GRPC_PORT: "1" } }, /^wrong {2}server: .*`npm start`/m],
    ["a wrong token", { env: { KEYRUN_SERVICE_TOKEN: "x".repeat(32) } }, /^wrong {2}token: .*refused/m],
    [
      "a data folder that can't be made",
      { env: { KEYRUN_DATA_DIR: "/dev/null/at/all" } },
      /^wrong {2}data folder: .*Set KEYRUN_DATA_DIR to a folder/m,
    ],
  ])("%s is reported with its fix, and exits 1", async (_, circumstances, words) => {
    const { code, stdout } = await run(["doctor"], circumstances);
    expect(stdout).toMatch(words);
    expect(code).toBe(1);
  });

  test("a token that others can read is reported with its fix, and exits 1", async () => {
    const { keyrun, run } = await ownKeyrun();
    chmodSync(join(keyrun.config.dataDir, "service-token"), 0o644);
    const { code, stdout } = await run(["doctor"]);
    expect(stdout).toMatch(/^wrong {2}data folder: .*`chmod 600`/m);
    expect(code).toBe(1);
  });

  test("a stopping server is reported with its fix, and exits 1", async () => {
    const keyrun = await startKeyrun({ settings: { KEYRUN_DRAIN_DELAY_MS: "2000" } });
    const closed = keyrun.close();
    onTestFinished(() => closed);
    const { code, stdout } = await commandsIn(keyrun.config.dataDir)(["doctor"]);
    expect(stdout).toMatch(/^wrong {2}server: .*starting or stopping/m);
    expect(code).toBe(1);
  });
});
