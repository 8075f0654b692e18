import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, onTestFinished, test, vi } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { dayOf } from "../../web/keys/form/expiry.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());

const run = (...args: string[]) =>
  runCommand(["keys", ...args], { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir } });

const dayMs = 86_400_000;

async function onlyKey(teamId: string) {
  const { keys } = await keyrun.keys.listKeys({ teamId, showRevoked: true });
  expect(keys).toHaveLength(1);
  return keys[0]!;
}

const expiryOf = async (teamId: string) => {
  const { expireTime } = await onlyKey(teamId);
  return expireTime && timestampMs(expireTime);
};

/** An id that no key has. */
const otherThan = (id: string) => `${id.startsWith("z") ? "y" : "z"}${id.slice(1)}`;

test("a key is created with a span until its expiry, which standard error tells", async () => {
  const teamId = await keyrun.newTeam();
  const beforeMs = Date.now();
  const { code, stdout, stderr } = await run("create", "--team", teamId, "--expires", "90d");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^svc_\S+\n$/);
  const expireMs = (await expiryOf(teamId)) ?? 0;
  expect(expireMs).toBeGreaterThanOrEqual(beforeMs + 90 * dayMs);
  expect(expireMs).toBeLessThanOrEqual(Date.now() + 90 * dayMs);
  expect(stderr).toContain(`It expires at ${new Date(expireMs).toISOString().slice(0, 19)}Z.`);
});

test.each([
  ["2031-01-31", "2031-01-31T22:59:59Z", "2031-01-31T23:59:59+01:00 (Europe/Berlin)"],
  ["2031-01-31T12:30:00+02:00", "2031-01-31T10:30:00Z", "2031-01-31T10:30:00Z"],
])(
  "a key is created to expire at %s, and an older one too, and both are told when",
  async (given, expected, said) => {
    vi.stubEnv("TZ", "Europe/Berlin");
    onTestFinished(() => void vi.unstubAllEnvs());
    const teamId = await keyrun.newTeam();
    const { code, stderr } = await run("create", "--team", teamId, "--expires", given);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining(`It expires at ${said}.`) });
    expect(await expiryOf(teamId)).toBe(Date.parse(expected));
    const { id } = await keyrun.newKey(teamId);
    const { stdout } = await run("update", "--team", teamId, id, "--expires", given);
    expect(stdout).toContain(`It expires at ${said}.`);
  },
);

test("today is a last day", async () => {
  // In one of these two zones it is morning.
  vi.stubEnv("TZ", new Date().getUTCHours() < 12 ? "UTC" : "Etc/GMT+12");
  onTestFinished(() => void vi.unstubAllEnvs());
  const teamId = await keyrun.newTeam();
  const { id } = await keyrun.newKey(teamId);
  const { code } = await run("update", "--team", teamId, id, "--expires", dayOf(Date.now()));
  expect(code).toBe(0);
  const { state } = await onlyKey(teamId);
  expect(state).toBe(KeyState.ACTIVE);
});

test.each(["soon", "0d", "90", "1y", "30s", "2031-13-01", "-1d"])(
  "--expires %s is a wrong use, and no key is made",
  async (given) => {
    const teamId = await keyrun.newTeam();
    const { code, stderr } = await run("create", "--team", teamId, `--expires=${given}`);
    expect(code).toBe(2);
    expect(stderr).toContain(
      "--expires must be a time from now in days, hours or minutes, like 90d, 12h or 30m, or a date",
    );
    expect((await keyrun.keys.listKeys({ teamId })).keys).toEqual([]);
  },
);

test("a minute is enough for a new key, and it lives a few seconds longer at most", async () => {
  const teamId = await keyrun.newTeam();
  expect(await run("create", "--team", teamId, "--expires", "1m")).toMatchObject({ code: 0 });
  const { createTime, expireTime } = await onlyKey(teamId);
  const livesMs = timestampMs(expireTime!) - timestampMs(createTime!);
  expect(livesMs).toBeGreaterThanOrEqual(60_000);
  expect(livesMs).toBeLessThanOrEqual(65_000);
});

test("an expiry that is brought forward to a minute from now is no second later", async () => {
  const teamId = await keyrun.newTeam();
  const { id } = await keyrun.newKey(teamId);
  expect(await run("update", "--team", teamId, id, "--expires", "1m")).toMatchObject({ code: 0 });
  expect(await expiryOf(teamId)).toBeLessThanOrEqual(Date.now() + 60_000);
});

test.each(["2027-02-31", "2031-02-29T10:00:00Z", "2031-04-31T23:59:59+02:00"])(
  "--expires %s is refused as a day that does not exist, and means no later one",
  async (given) => {
    const teamId = await keyrun.newTeam();
    const { id } = await keyrun.newKey(teamId);
    const stderr = `--expires must be a day that exists: ${given.slice(0, 10)} does not.\n`;
    const refused = { code: 2, stdout: "", stderr };
    expect(await run("create", "--team", teamId, "--expires", given)).toEqual(refused);
    expect(await run("update", "--team", teamId, id, "--expires", given)).toEqual(refused);
    expect(await expiryOf(teamId)).toBeUndefined();
  },
);

test("an expiry on the leap day of a leap year is taken", async () => {
  const teamId = await keyrun.newTeam();
  expect(await run("create", "--team", teamId, "--expires", "2028-02-29")).toMatchObject({ code: 0 });
  expect(dayOf((await expiryOf(teamId)) ?? 0)).toBe("2028-02-29");
});

test("an expiry that the server refuses is named as the option", async () => {
  const teamId = await keyrun.newTeam();
  const { code, stdout, stderr } = await run("create", "--team", teamId, "--expires", "2001-01-01");
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain("--expires must be at least a minute");
});

test("a key is relabelled, loses its label, and expires earlier, by any name that it has", async () => {
  const teamId = await keyrun.newTeam();
  const { id, value } = await keyrun.newKey(teamId);
  const update = (...args: string[]) => run("update", "--team", teamId, ...args);
  expect(await update(id, "--label", "ci")).toMatchObject({
    ...{ code: 0, stdout: `Key ${id} is changed: its label is ci.\n`, stderr: "" },
  });
  const redacted = `${value.slice(0, 8)}...${value.slice(-4)}`;
  expect(await update(redacted, "--label", "", "--expires", "7d")).toMatchObject({ code: 0 });
  expect(await onlyKey(teamId)).toMatchObject({ label: "", state: KeyState.ACTIVE });
  expect((await expiryOf(teamId)) ?? 0).toBeLessThanOrEqual(Date.now() + 7 * dayMs);
  const later = await update(id, "--expires", "8d");
  expect(later.code).toBe(2);
  expect(later.stderr).toContain("--expires must not be later than");
  expect(await update(id)).toMatchObject({ code: 2 });
  expect((await update(otherThan(id), "--label", "x")).stderr).toContain("./keyrun keys list");
});

test("a key is rotated: the new one stands alone on standard output, and the rest beside it", async () => {
  const teamId = await keyrun.newTeam();
  const old = await keyrun.newKey(teamId);
  const { code, stdout, stderr } = await run("rotate", "--team", teamId, old.id, "--overlap", "24h");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^svc_\S+\n$/);
  const id = stdout.slice(4, 28);
  expect(stderr).toContain(`Key ${id} of team ${teamId} replaces key ${old.id}.`);
  expect(stderr).toContain("The old key works until ");
  const { keys } = await keyrun.keys.listKeys({ teamId });
  expect(keys.map((key) => [key.id, key.replacedByKeyId])).toEqual([
    [id, ""],
    [old.id, id],
  ]);
  const listed = await run("list", "--team", teamId);
  expect(listed.stderr).toContain("1 of at most 50 active keys, not counting 1 that was replaced.");
  const again = await run("rotate", "--team", teamId, id);
  expect(again.stderr).toContain("The old key was revoked at ");
  const refused = await run("rotate", "--team", teamId, id);
  expect(refused).toMatchObject({ code: 1, stdout: "" });
  expect(refused.stderr).toContain("revoked");
  expect(await run("rotate", "--team", teamId, id, "--overlap", "x")).toMatchObject({ code: 2, stdout: "" });
});

test("the list says which keys are active, replaced, expired or revoked, and when they expire", async () => {
  const teamId = await keyrun.newTeam();
  const keys = await Promise.all(Array.from({ length: 4 }, () => keyrun.newKey(teamId)));
  const [, replaced, expired, revoked] = keys.map(({ id }) => id);
  await run("rotate", "--team", teamId, replaced!, "--overlap", "24h");
  await run("update", "--team", teamId, expired!, "--expires", "2001-01-01");
  await run("revoke", "--team", teamId, revoked!);
  const { stdout } = await run("list", "--team", teamId, "--revoked");
  const lineOf = (id: string | undefined) =>
    stdout.split("\n").find((line) => line.includes(id ?? "?")) ?? "";
  expect(lineOf(keys[0]?.id)).toMatch(/ active +never/);
  expect(lineOf(replaced)).toMatch(/ replaced +\d{4}-/);
  expect(lineOf(expired)).toMatch(/ expired +\d{4}-/);
  expect(lineOf(revoked)).toMatch(/ revoked +never/);
  expect((await run("list", "--team", teamId)).stdout).not.toContain(expired);
});
