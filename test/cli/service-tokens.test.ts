import { describe, expect, test } from "vitest";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());

function run(argv: readonly string[], token?: string, input?: string) {
  const env = {
    KEYRUN_DATA_DIR: keyrun.config.dataDir,
    ...(token !== undefined && { KEYRUN_SERVICE_TOKEN: token }),
  };
  return runCommand(argv, { env, ...(input !== undefined && { stdin: [input] }) });
}

describe("service-tokens", () => {
  test("create prints the token alone on standard output, and what people should know on standard error", async () => {
    const made = await run(["service-tokens", "create", "billing", "--role", "manage", "--team", "demo"]);
    expect(made.code).toBe(0);
    expect(made.stdout).toMatch(/^keyrunservice_[0-9a-z]{24}\.[0-9A-Za-z]{49}\n$/);
    const [id, secret] = made.stdout.trim().slice("keyrunservice_".length).split(".") as [string, string];
    expect(made.stderr).toContain(
      `Token ${id} of the service billing is created, for the role manage of demo.`,
    );
    expect(made.stderr).toContain("shown only once");
    expect(made.stderr).not.toContain(secret);
  });

  test("list shows each token with its role and its last use, and that of the settings last", async () => {
    const { value } = await keyrun.newServiceToken(ServiceRole.VERIFY);
    await run(["keys", "verify"], value);
    const { stdout } = await run(["service-tokens", "list"]);
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^NAME +ROLE +TEAMS +TOKEN +ID +CREATED +BY +LAST USED$/);
    expect(lines[1]).toMatch(/^service-\d+ +verify +- +keyrunservice_\w{4}….{4} +\w{24} +\d{4}-/);
    expect(lines.at(-1)).toMatch(/^local +admin +- +- +local +- +- +-$/);
    expect(stdout).not.toContain(value.slice(-10));
  });

  test("revoke takes the name or the id, and a revoked token is shown only when asked", async () => {
    const byName = await keyrun.newServiceToken(ServiceRole.METRICS);
    const byId = await keyrun.newServiceToken(ServiceRole.METRICS);
    expect((await run(["service-tokens", "revoke", byName.name])).stdout).toMatch(
      new RegExp(`^Token ${byName.id} of the service ${byName.name} was revoked at \\d{4}-.*Z\\.\n$`),
    );
    expect((await run(["service-tokens", "revoke", byId.id])).code).toBe(0);
    const { stdout } = await run(["service-tokens", "list"]);
    expect(stdout).not.toContain(byId.id);
    const all = await run(["service-tokens", "list", "--revoked"]);
    expect(all.stdout).toContain(byId.id);
    expect(all.stdout).toContain("the command line");
  });

  test("revoke says what to do about the token of the settings, an unknown one, and a whole value", async () => {
    const local = await run(["service-tokens", "revoke", "local"]);
    expect(local).toMatchObject({ code: 1, stderr: expect.stringContaining("KEYRUN_SERVICE_TOKEN") });
    const unknown = await run(["service-tokens", "revoke", "nowhere"]);
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining("service-tokens list") });
    const { value } = await keyrun.newServiceToken(ServiceRole.VERIFY);
    const whole = await run(["service-tokens", "revoke", value]);
    expect(whole.code).toBe(2);
    expect(whole.stderr).not.toContain(value.slice(20));
  });

  test.each([
    [["create", "x"], "--role"],
    [["create", "x", "--role", "owner"], "owner"],
    [["create", "x", "--role", "manage"], "--team"],
    [["create", "x", "--role", "verify", "--team", "demo"], "--role manage"],
    [["create", "Upper", "--role", "verify"], "<name>"],
    [["create", "local", "--role", "verify"], "<name>"],
  ])("%j is wrong use, and says what is right", async (argv, words) => {
    const { code, stderr } = await run(["service-tokens", ...argv]);
    expect(code).toBe(2);
    expect(stderr).toContain(words);
  });

  test.each(["keyrun", "unknown"])("create refuses the name %s in a sentence", async (name) => {
    expect(await run(["service-tokens", "create", name, "--role", "admin"])).toEqual({
      code: 2,
      stdout: "",
      stderr: `<name> must not be "${name}": records name Keyrun itself or nobody so.\n`,
    });
  });

  test("create says how to free a name that is taken", async () => {
    const { name } = await keyrun.newServiceToken(ServiceRole.VERIFY);
    const { code, stderr } = await run(["service-tokens", "create", name, "--role", "verify"]);
    expect(code).toBe(1);
    expect(stderr).toContain(`./keyrun service-tokens revoke ${name}`);
  });
});

describe("a command with the token of a service", () => {
  test("does what the role allows, under the service's name", async () => {
    const { name, value } = await keyrun.newServiceToken(ServiceRole.MANAGE, ["demo"]);
    const made = await run(["keys", "create", "--team", "demo", "--json"], value);
    expect(JSON.parse(made.stdout).key.createdBy).toBe(name);
    const verify = await keyrun.newServiceToken(ServiceRole.VERIFY);
    const key = await keyrun.newKey("demo");
    expect(await run(["keys", "verify"], verify.value, `${key.value}\n`)).toMatchObject({ code: 0 });
  });

  test("says which role is needed and where to set another token, for what the role does not allow", async () => {
    const { name, value } = await keyrun.newServiceToken(ServiceRole.VERIFY);
    const { code, stdout, stderr } = await run(["keys", "create", "--team", "demo"], value);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain(`\`${name}\` may not do this: it needs the role manage`);
    expect(stderr).toContain("KEYRUN_SERVICE_TOKEN");
    expect((await run(["teams", "list"], value)).stderr).toContain("it needs the role admin.");
  });

  test("names its teams where the service may manage others, and asks for --team where it may not list all", async () => {
    const { value } = await keyrun.newServiceToken(ServiceRole.MANAGE, ["demo"]);
    const other = await run(["keys", "list", "--team", "nowhere"], value);
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining("Its teams are demo") });
    const none = await run(["keys", "list"], value);
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining("--team") });
  });

  test("that was revoked says so and what to do", async () => {
    const { id, value } = await keyrun.newServiceToken(ServiceRole.ADMIN);
    await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId: id });
    const { code, stderr } = await run(["teams", "list"], value);
    expect(code).toBe(1);
    expect(stderr).toContain("refused the service token");
  });
});
