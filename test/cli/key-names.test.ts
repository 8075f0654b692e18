import { expect, test } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());

const revoke = (...args: string[]) =>
  runCommand(["keys", "revoke", ...args], { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir } });

async function stateOf(teamId: string, id: string) {
  const { keys } = await keyrun.keys.listKeys({ teamId, showRevoked: true });
  return keys.find((key) => key.id === id)?.state;
}

/** What people have at hand of a key: each is one text that names it. */
const names: [string, (key: { id: string; value: string }) => string][] = [
  ["its id", ({ id }) => id],
  ["its id in capitals", ({ id }) => id.toUpperCase()],
  ["svc_<id>", ({ id }) => `svc_${id}`],
  ["<prefix>_<id> of another prefix", ({ id }) => `acme9_${id}`],
  ["its redacted form", ({ value }) => `${value.slice(0, 8)}…${value.slice(-4)}`],
  ["its redacted form in ASCII", ({ value }) => `${value.slice(0, 8)}...${value.slice(-4)}`],
];

test.each(names)("a key is revoked by %s", async (_, name) => {
  const teamId = await keyrun.newTeam();
  const [key, other] = [await keyrun.newKey(teamId), await keyrun.newKey(teamId)];
  const { code, stdout, stderr } = await revoke("--team", teamId, name(key));
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain(`Key ${key.id} was revoked at `);
  expect(await stateOf(teamId, key.id)).toBe(KeyState.REVOKED);
  expect(await stateOf(teamId, other.id)).toBe(KeyState.ACTIVE);
});

test("a whole key is revoked, is never printed, and the history of the shell is named", async () => {
  const teamId = await keyrun.newTeam();
  for (const cut of [0, 20]) {
    const { id, value } = await keyrun.newKey(teamId);
    const given = cut === 0 ? value : value.slice(0, -cut);
    const { code, stdout, stderr } = await revoke("--team", teamId, given);
    expect(code).toBe(0);
    expect(await stateOf(teamId, id)).toBe(KeyState.REVOKED);
    expect(stderr).toMatch(/history/);
    expect(stdout + stderr).not.toContain(given.split(".")[1]);
  }
});

test("a redacted form of no key says how to list the keys", async () => {
  const teamId = await keyrun.newTeam();
  const { code, stderr } = await revoke("--team", teamId, "svc_zzzz…zzzz");
  expect(code).toBe(1);
  expect(stderr).toBe(
    `Team ${teamId} has no key svc_zzzz…zzzz. List its keys with \`./keyrun keys list --team ${teamId}\`.\n`,
  );
});

test("a revoked key does not stand in the way of an active one, and is named again where it is alone", async () => {
  const teamId = await keyrun.newTeam();
  const { id, value } = await keyrun.newKey(teamId);
  const redacted = `${value.slice(0, 8)}…${value.slice(-4)}`;
  const [first, again] = [await revoke("--team", teamId, redacted), await revoke("--team", teamId, redacted)];
  expect(again).toEqual(first);
  expect(first.stdout).toContain(id);
});

test.each(["", "nothing", "svc_", "svc_zzzz…", "a".repeat(23), "a".repeat(49)])(
  "%j names no key: wrong use, and it is not repeated",
  async (text) => {
    const { code, stdout, stderr } = await revoke("--team", "demo", text);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^This names no key\. Give its id/);
    if (text.length > 4) expect(stderr).not.toContain(text);
  },
);

test("an unknown id is told with its team, and how to list the keys", async () => {
  const id = "0".repeat(24);
  expect(await revoke("--team", "demo", id)).toEqual({
    code: 1,
    stdout: "",
    stderr: `Team demo has no key ${id}. List its keys with \`./keyrun keys list --team demo\`.\n`,
  });
});

test("a key as an argument of keys verify is never printed, and the right way is told", async () => {
  const { value } = await keyrun.newKey("demo");
  const { code, stdout, stderr } = await runCommand(["keys", "verify", value]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(
    /^keys verify reads the key from standard input, .* remove the line from the history\.\n$/,
  );
  expect(stderr).not.toContain(value.split(".")[1]);
});

const show = (...args: string[]) =>
  runCommand(["keys", "show", ...args], { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir } });

test.each(names)("a key is shown by %s", async (_, name) => {
  const teamId = await keyrun.newTeam();
  const [key] = [await keyrun.newKey(teamId), await keyrun.newKey(teamId)];
  const { code, stdout, stderr } = await show("--team", teamId, name(key));
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(new RegExp(`^id +${key.id}\n`));
});

test("keys show tells all that is known of a key, also of one that has ended", async () => {
  const teamId = await keyrun.newTeam();
  const { key } = await keyrun.keys.createKey({
    teamId,
    label: "ci",
    appIds: ["echo"],
    requestsPerMinute: 5,
  });
  const { id = "", redactedValue } = key ?? {};
  // Another key whose label has the id in it.
  await keyrun.keys.createKey({ teamId, label: `after ${id}` });
  const rotated = await keyrun.keys.rotateKey({ teamId, keyId: id });
  const time = "20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ";
  const linesOf = async (keyId: string) => (await show("--team", teamId, keyId)).stdout.trimEnd().split("\n");
  expect(await linesOf(id)).toEqual([
    `id                 ${id}`,
    `team               ${teamId}`,
    "label              ci",
    `key                ${redactedValue}`,
    "state              revoked",
    expect.stringMatching(new RegExp(`^created {12}${time}, by the service token$`)),
    "last used          never",
    "expires            never",
    expect.stringMatching(new RegExp(`^revoked {12}${time}, by the service token$`)),
    "apps               echo",
    "requests a minute  5",
    `replaced by        ${rotated.key?.id}`,
  ]);
  expect((await linesOf(rotated.key?.id ?? "")).at(-1)).toBe(`replaces           ${id}`);
  const plain = await linesOf((await keyrun.newKey(teamId)).id);
  expect(plain.slice(-3)).toEqual([
    "expires            never",
    "apps               all of the team's",
    "requests a minute  only the team's limit",
  ]);
  const json = JSON.parse((await show("--team", teamId, id, "--json")).stdout);
  expect(json).toMatchObject({ key: { id, label: "ci", state: "KEY_STATE_REVOKED" } });
});

test("keys show of another team's key, or of none, says how to list the team's own", async () => {
  const [teamId, other] = [await keyrun.newTeam(), await keyrun.newTeam()];
  const { id } = await keyrun.newKey(other);
  for (const named of [id, `svc_${id}`, "0".repeat(24), "svc_zzzz…zzzz"]) {
    const { code, stdout, stderr } = await show("--team", teamId, named);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(new RegExp(`^Team ${teamId} has no key .*\\. List its keys with `));
  }
});
