import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuditChannel, AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import { secretPath } from "#src/settings/data-folder.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { type Circumstances, runCommand } from "../harness/command-line.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { mongodbUri } from "../harness/needs.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";

const folders = tempFolders();
const databases = createMongoDatabases();
afterAll(async () => {
  await databases.drop();
});

/** A Keyrun on this folder, whose secrets are in a file there. */
const startIn = (dataDir: string, settings: Record<string, string> = {}) =>
  startKeyrun({ settings: { KEYRUN_SECRET: undefined, KEYRUN_DATA_DIR: dataDir, ...settings } });

async function eventsOf({ audit }: Keyrun) {
  return (await audit.listEvents({ pageSize: 100 })).events;
}

// Of the other commands each makes a call of the API, whose events test/api/audit.test.ts decides.
describe("a command that needs no server", () => {
  const dataDir = folders.create();
  /** The events of the data folder so far. */
  const known = new Set<string>();
  const ofStart = "instance.start";

  /** The events that were written since the last look, without those of the look's own start. */
  async function newEvents() {
    const keyrun = await startIn(dataDir);
    const found = (await eventsOf(keyrun)).filter(({ id }) => !known.has(id));
    for (const { id } of found) known.add(id);
    await keyrun.close();
    const starts = found.filter(({ action }) => action === ofStart).slice(1);
    const stops = found.filter(({ action }) => action === "instance.stop");
    const others = found.filter(({ action }) => !action.startsWith("instance."));
    return { starts, stops, others };
  }

  const run = (words: string, env: Circumstances["env"] = {}) =>
    runCommand(words.split(" "), { env: { KEYRUN_DATA_DIR: dataDir, ...env } });

  beforeAll(async () => {
    await newEvents();
  });

  const byKeyrun = { actor: "Keyrun", channel: AuditChannel.UNSPECIFIED, action: "secret.change", count: 1 };
  const secretInEnvironment = { KEYRUN_SECRET: Buffer.alloc(32, 7).toString("base64url") };

  // Each goes on with the file that the one before has left: promote needs two secrets.
  test.each(["secrets rotate", "secrets add", "secrets promote", "secrets drop"])(
    "%s has exactly one event, at the next start, and none where it was refused",
    async (words) => {
      const call = words === "secrets drop" ? `${words} --yes` : words;
      const refused = await run(call, secretInEnvironment);
      expect(refused.code).toBe(1);
      expect((await newEvents()).others).toEqual([]);
      const done = await run(`${call} --json`);
      expect(done.code, done.stderr).toBe(0);
      const { versions } = JSON.parse(done.stdout);
      const target = `service secrets ${versions.join(", ")}`;
      expect((await newEvents()).others).toMatchObject([
        { ...byKeyrun, target, teamId: "", outcome: AuditOutcome.DONE },
      ]);
      expect((await newEvents()).others).toEqual([]);
    },
  );

  test("serve has one event of its start, and one of its stop", async () => {
    await newEvents();
    const serve = async () => {
      const served = await startIn(dataDir);
      await served.close();
      return 0;
    };
    expect((await runCommand(["serve"], { serve })).code).toBe(0);
    const { starts, stops, others } = await newEvents();
    // One stop is that of the look before.
    expect([starts.length, stops.length, others]).toEqual([1, 2, []]);
    expect(stops[0]).toMatchObject({ actor: "Keyrun", action: "instance.stop", outcome: AuditOutcome.DONE });
  });

  test("copy-to-mongodb takes the events along, and changes nothing itself", async () => {
    expect((await run("copy-to-mongodb")).code).toBe(1);
    if (mongodbUri !== "") {
      const uri = databases.createUri();
      const settings = { KEYRUN_MONGODB_URI: uri, KEYRUN_SECRET_FILE: secretPath(dataDir) };
      const copied = await run("copy-to-mongodb", settings);
      expect(copied.code, copied.stderr).toBe(0);
      const stores = await openMongoForTest({ uri });
      const ids = (await stores.audit.list({ limit: 1_000 })).map(({ id }) => id);
      await stores.close();
      // The stop of the last look is the only event that no look has seen yet.
      expect(ids.filter((id) => !known.has(id))).toHaveLength(1);
      expect(ids).toHaveLength(known.size + 1);
    }
    const { starts, others } = await newEvents();
    expect([starts, others]).toEqual([[], []]);
  });
});
