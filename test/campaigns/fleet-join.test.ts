import { randomBytes, randomUUID } from "node:crypto";
import { MongoClient } from "mongodb";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { type KeyrunProcess, type Settings, servedRun } from "../harness/keyrun-process.ts";
import { startRedis } from "../harness/redis-server.ts";

let fleet: Fleet;
let key: { readonly value: string };

const random = () => randomBytes(32).toString("base64url");

/** The words in which it is refused. */
async function refusalOf(name: string, running: KeyrunProcess): Promise<string> {
  const beganMs = performance.now();
  const { code } = await running.exited;
  const words = running.stderr();
  expect({ code, words }).toMatchObject({ code: 1, words: expect.stringContaining("Keyrun can't start: ") });
  expect(running.stdout()).not.toContain("ready:");
  figure(`${name}: refused after`, performance.now() - beganMs, "ms");
  return words.slice(words.indexOf("Keyrun can't start: ")).trim();
}

/** What a start's environment lacks stays out of it: an empty text would be a wrong value. */
function without(settings: Settings, ...names: readonly string[]): Settings {
  return Object.fromEntries(Object.entries(settings).filter(([name]) => !names.includes(name)));
}

/** Those of an instance that serves alone. */
function alone(settings: Settings): Settings {
  return without(settings, "KEYRUN_REDIS_URL", "KEYRUN_LIMIT_FALLBACK");
}

describeFleet("processes")("an instance that may not join a fleet of two", () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes", size: 2 });
    const management = fleet.manage();
    key = await management.newKey(await management.newTeam());
  });
  afterAll(() => fleet?.close());

  const cases: Record<string, { settings: () => Settings | Promise<Settings>; words: RegExp }> = {
    "another key prefix": { settings: () => ({ KEYRUN_KEY_PREFIX: "acme" }), words: /KEYRUN_KEY_PREFIX/ },
    "another service token": {
      settings: () => ({ KEYRUN_SERVICE_TOKEN: random() }),
      words: /KEYRUN_SERVICE_TOKEN/,
    },
    "a secret that can't read the others' keys": {
      settings: () => ({ KEYRUN_SECRET: random() }),
      words: /KEYRUN_SECRET/,
    },
    "a first secret whose keys the others can't read": {
      settings: () => ({ KEYRUN_SECRET: `${random()},${fleet.settings.KEYRUN_SECRET}` }),
      words: /newest service secret/,
    },
    // Else a team would get its limit twice.
    "another Redis": {
      async settings() {
        const redis = await startRedis();
        onTestFinished(redis.kill);
        return { KEYRUN_REDIS_URL: redis.url };
      },
      words: /its instance at 127\.0\.0\.1:\d+ shares limits in another Redis \(of mark/,
    },
    "the Redis of another fleet": {
      settings() {
        const { KEYRUN_MONGODB_URI: uri = "" } = fleet.joining();
        return { KEYRUN_MONGODB_URI: uri.replace("/keyrun?", "/another-fleet?") };
      },
      words: /in use by another fleet, of id [0-9a-f]{12}, and this one has id [0-9a-f]{12}/,
    },
  };

  test.each(Object.entries(cases))(
    "%s: it is refused in words, and the fleet serves on",
    async (name, each) => {
      const settings = await each.settings();
      const words = await refusalOf(name, fleet.spawn(fleet.joining(settings)));
      expect(words).toMatch(each.words);
      for (const secret of [settings.KEYRUN_SECRET, settings.KEYRUN_SERVICE_TOKEN]) {
        if (secret !== undefined) expect(words).not.toContain(secret.slice(0, 20));
      }
      await expectServed();
    },
  );

  test("KEYRUN_REDIS_URL without KEYRUN_MONGODB_URI is refused in words", async () => {
    const words = await refusalOf("Redis alone", fleet.spawn(without(fleet.joining(), "KEYRUN_MONGODB_URI")));
    expect(words).toMatch(/KEYRUN_REDIS_URL.*KEYRUN_MONGODB_URI|KEYRUN_MONGODB_URI.*KEYRUN_REDIS_URL/s);
  });

  test("one without Redis is refused in words while a fleet serves", async () => {
    const running = fleet.spawn(alone(fleet.joining()));
    expect(await refusalOf("one without Redis", running)).toMatch(/A fleet serves.*KEYRUN_REDIS_URL/);
    await expectServed();
  });

  async function expectServed(): Promise<void> {
    for (const member of fleet.members) {
      expect((await servedRun(member.publicUrl, { value: key.value })).status).toBe(200);
      await member.untilReadyz(200);
    }
  }
});

describeFleet("processes")("a fleet's instance beside one that serves alone", () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes", size: 1, started: false });
  });
  afterAll(() => fleet?.close());

  test("is refused in words, and starts once the other has left", async () => {
    const lone = fleet.spawn(alone(fleet.joining()));
    await lone.until(() => lone.stdout().includes("ready: "));
    expect(await refusalOf("beside one alone", fleet.spawn(fleet.joining()))).toMatch(
      /another Keyrun|alone/i,
    );
    lone.kill("SIGTERM");
    expect(await lone.exited).toMatchObject({ code: 0 });
    const joined = fleet.spawn(fleet.joining());
    await joined.until(() => joined.stdout().includes("ready: "));
  });
});

describeFleet("processes")("an instance that serves alone", () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes", size: 1, started: false });
  });
  afterAll(() => fleet?.close());

  test("a second one is refused in words, and starts once the first has left", async () => {
    const settings = alone(fleet.joining());
    const first = fleet.spawn(settings);
    await first.until(() => first.stdout().includes("ready: "));
    expect(await refusalOf("beside one alone", fleet.spawn(settings))).toMatch(
      /Another Keyrun serves this MongoDB database .* last 16 s.* Only one may serve it/,
    );
    first.kill("SIGTERM");
    expect(await first.exited).toMatchObject({ code: 0 });
    const next = fleet.spawn(settings);
    await next.until(() => next.stdout().includes("ready: "));
    next.kill("SIGTERM");
    await next.exited;
  });

  test("of one that was killed, the next one takes the place within the time of a lease", async () => {
    const settings = alone(fleet.joining());
    const killed = fleet.spawn(settings);
    await killed.until(() => killed.stdout().includes("ready: "));
    killed.kill("SIGKILL");
    await killed.exited;
    const beganMs = performance.now();
    const next = fleet.spawn(settings);
    await next.until(() => next.stdout().includes("ready: "));
    figure("alone after a kill: ready after", performance.now() - beganMs, "ms");
    expect(next.stderr()).toContain("another Keyrun serves this database: waiting for it to leave");
  });
});

describeFleet("processes")("an instance that others took for dead", () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes", size: 1, started: false });
  });
  afterAll(() => fleet?.close());

  test("ends with status 1 and says why, where it may not join again", async () => {
    const settings = fleet.joining();
    const running = fleet.spawn(settings);
    await running.until(() => running.stdout().includes("ready: "));
    const client = await MongoClient.connect(settings.KEYRUN_MONGODB_URI ?? "");
    const control = client.db().collection<{ _id: string; leases: object }>("control");
    const [own] = Object.keys((await control.findOne({ _id: "control" }))?.leases ?? {});
    // As if it had stood still, and others with another token had joined meanwhile.
    const other = { n: 1, ack: 0, order: 0, facts: instanceFactsOf() };
    await control.updateOne(
      { _id: "control" },
      { $unset: { [`leases.${own}`]: "" }, $set: { [`leases.${randomUUID()}`]: other } },
    );
    await client.close();
    expect(await running.exited).toMatchObject({ code: 1 });
    const fatal = running
      .stderr()
      .split("\n")
      .filter((line) => line.includes("the fleet took this instance out"));
    expect(fatal).toHaveLength(1);
    expect(fatal[0]).toMatch(/"words":"This Keyrun may not join the fleet of this database: /);
    expect(running.stderr()).toContain('"msg":"stopped"');
  });
});
