import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuditChannel, AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import { secretPath } from "#src/settings/data-folder.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { type Circumstances, everyCommand, runCommand } from "../harness/command-line.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { mongodbUri } from "../harness/needs.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";
import {
  type CommandCall,
  changingCommands,
  keyCommands,
  offlineCommands,
  readingCommands,
} from "./audited-command-calls.ts";

const folders = tempFolders();
const databases = createMongoDatabases();
afterAll(async () => {
  await databases.drop();
});

test("each command of the program is called here, in one way", () => {
  const called = [...changingCommands.keys(), ...readingCommands.keys(), ...keyCommands, ...offlineCommands];
  expect(called.toSorted()).toEqual(everyCommand().toSorted());
});

/** A Keyrun on this folder, whose secrets are in a file there. */
const startIn = (dataDir: string, settings: Record<string, string> = {}) =>
  startKeyrun({ settings: { KEYRUN_SECRET: undefined, KEYRUN_DATA_DIR: dataDir, ...settings } });

async function eventsOf({ audit }: Keyrun) {
  return (await audit.listEvents({ pageSize: 100 })).events;
}

async function callIn(dataDir: string, words: string, { args, stdin }: CommandCall) {
  const call = [...words.split(" "), ...args];
  return runCommand(call, { env: { KEYRUN_DATA_DIR: dataDir }, ...(stdin && { stdin }) });
}

describe("a command that a server answers", () => {
  let keyrun: Keyrun;
  let withoutSignIn: Keyrun;
  beforeAll(async () => {
    keyrun = await startIn(folders.create());
    withoutSignIn = await startIn(folders.create(), { KEYRUN_HOST: "0.0.0.0" });
  });
  afterAll(async () => {
    await keyrun.close();
    await withoutSignIn.close();
  });

  /** The secrets of keys, service tokens and sign-in links that commands have printed. */
  const printed: string[] = [];
  const secretForm = /(?<=[.#=])[0-9A-Za-z_-]{43,}/g;

  /** Runs the command, and returns how it ended and the events that came with it. */
  async function during(at: Keyrun, words: string, call: CommandCall) {
    const known = new Set((await eventsOf(at)).map(({ id }) => id));
    const ended = await callIn(at.config.dataDir, words, call);
    return { ...ended, events: (await eventsOf(at)).filter(({ id }) => !known.has(id)) };
  }

  const who = {
    actor: "the command line",
    channel: AuditChannel.COMMAND_LINE,
    address: "127.0.0.1",
    count: 1,
  };

  test.each([...changingCommands])(
    "%s has exactly one event, which says who did what",
    async (words, { action, done }) => {
      const call = await done(keyrun);
      const { code, stdout, stderr, events } = await during(keyrun, words, call);
      expect(code, stderr).toBe(0);
      printed.push(...(stdout.match(secretForm) ?? []));
      const { teamId, target } = { ...events[0], ...call };
      expect(target === "" ? teamId + words : target).not.toBe("");
      expect(events).toMatchObject([
        { ...who, action, teamId, target, outcome: AuditOutcome.DONE, reason: "" },
      ]);
    },
  );

  test.each([...changingCommands])(
    "%s has exactly one event also when it is refused",
    async (words, { action, refused }) => {
      const call = refused ?? { args: [], teamId: "", target: "" };
      const { code, events } = await during(refused ? keyrun : withoutSignIn, words, call);
      expect(code).not.toBe(0);
      const { teamId, target } = call;
      expect(events).toMatchObject([{ ...who, action, teamId, target, outcome: AuditOutcome.REFUSED }]);
      expect(events[0]?.reason).toMatch(/^[A-Z_]+$/);
    },
  );

  test.each([...readingCommands])("%s changes nothing, and has no event", async (words, make) => {
    const call = await make(keyrun);
    const { code, stderr, events } = await during(keyrun, words, call);
    expect(code, stderr).toBe(0);
    expect(events).toEqual([]);
  });

  test("no event and no line of the log has a secret that a command has printed", async () => {
    // A new key, a rotated one, a service token and a sign-in link.
    expect(printed).toHaveLength(4);
    const secrets = [...printed, keyrun.serviceToken];
    const { events } = await keyrun.audit.listEvents({ pageSize: 100 });
    const told = JSON.stringify([events.map(({ time, ...facts }) => facts), keyrun.logLines], (_, value) =>
      typeof value === "bigint" ? String(value) : value,
    );
    expect(events.length).toBeGreaterThan(changingCommands.size);
    for (const secret of secrets) expect(told).not.toContain(secret.slice(0, 20));
  });
});

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
  const refusedBy: Record<string, Circumstances["env"]> = {
    "secrets rotate": secretInEnvironment,
    "secrets add": secretInEnvironment,
    "secrets promote": secretInEnvironment,
    "secrets drop": secretInEnvironment,
  };

  // Each goes on with the file that the one before has left: promote needs two secrets.
  test.each(offlineCommands.filter((words) => words.startsWith("secrets ")))(
    "%s has exactly one event, at the next start, and none where it was refused",
    async (words) => {
      const call = words === "secrets drop" ? `${words} --yes` : words;
      const refused = await run(call, refusedBy[words]);
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
