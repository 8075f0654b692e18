import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import { keyrunCommand, type Settings } from "../harness/keyrun-process.ts";
import { heldIn } from "../harness/secret-places.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
const secretFile = join(folders.create(), "keyrun-secret");
let fleet: Fleet;

/** A command on one host, with the settings of its instance. */
async function secrets(...args: string[]) {
  const { KEYRUN_SECRET: _, ...settings } = fleet.joining();
  const ofHost: Settings = { ...settings, KEYRUN_SECRET_FILE: secretFile };
  return await keyrunCommand(ofHost, ["secrets", ...args]);
}

const held = () => heldIn(secretFile);
const restart = async (places: readonly number[]) => {
  for (const place of places) {
    const member = fleet.members[place]!;
    await member.stop();
    await member.start({ KEYRUN_SECRET: held().join(",") });
  }
};

describeFleet("processes")("the commands for the secret of a fleet", () => {
  beforeAll(async () => {
    const secret = randomBytes(32).toString("base64url");
    writeFileSync(secretFile, `${secret}\n`, { mode: 0o600 });
    fleet = await startFleet({ in: "processes", size: 2, settings: { KEYRUN_SECRET: secret } });
  });
  afterAll(async () => {
    await fleet?.close();
    folders.remove();
  });

  test("are refused where an instance or a key is not as far yet, and the file stays", {
    timeout: 240_000,
  }, async () => {
    const refusedFor = async (words: RegExp, ...args: string[]) => {
      const before = held();
      const { code, stderr } = await secrets(...args);
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(words) });
      expect(held()).toEqual(before);
      for (const text of before) expect(stderr).not.toContain(text);
    };
    const [old = ""] = held();
    await refusedFor(/settings of a fleet.*`\.\/keyrun secrets add`/, "rotate");
    await refusedFor(/holds one secret.*`secrets add`/, "promote");
    expect(await secrets("add")).toMatchObject({ code: 0 });
    expect(held()).toEqual([old, expect.anything()]);

    await refusedFor(/does not know version \w{8} yet/, "promote");
    await restart([0]);
    await refusedFor(/The instance at 127\.0\.0\.1:\d+ does not know version \w{8} yet/, "promote");
    await restart([1]);
    await refusedFor(/was added and never promoted.*`secrets promote`/, "drop", "--yes");
    const [, added = ""] = held();
    expect(await secrets("promote", "--json")).toMatchObject({ code: 0 });
    expect(held()).toEqual([added, old]);

    await refusedFor(/The instance at .* still makes keys with version \w{8}/, "drop", "--yes");
    await restart([0]);
    // The other instance makes a key with the old secret.
    const management = fleet.manage(1);
    const teamId = await management.newTeam();
    const { id: keyId } = await management.newKey(teamId);
    await restart([1]);
    await refusedFor(/holds keys that were made with version \w{8}/, "drop", "--yes");
    await management.keys.revokeKey({ teamId, keyId });
    await refusedFor(/A revoked key needs its secret, too/, "drop", "--yes");
    const [{ versions }] = [JSON.parse((await secrets("list", "--json")).stdout)];
    await refusedFor(/is the first in .* and makes new keys/, "drop", versions[0], "--yes");
    await refusedFor(/holds no secret of version 00000000/, "drop", "00000000", "--yes");
    await management.teams.deleteTeam({ teamId });
    expect(await secrets("drop", versions[1], "--yes")).toMatchObject({ code: 0 });
    expect(held()).toEqual([added]);
    await restart([0, 1]);
  });
});
