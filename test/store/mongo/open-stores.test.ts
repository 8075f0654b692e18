import { MongoClient } from "mongodb";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import type { Stores } from "#src/store/stores.ts";
import { createMongoDatabases, withDatabase } from "../../harness/mongo-databases.ts";
import { type MongoServer, mongoServerProgram } from "../../harness/mongo-server.ts";
import { describeWith, mongodbMissing, mongodbUri } from "../../harness/needs.ts";
import { openMongoForTest, shortInstanceTimes, silentInstanceEvents } from "../../harness/open-mongo.ts";
import { keyRecordOf, newAppOf, runRecordOf, teamRecordOf } from "../../harness/store-records.ts";
import { openTcpProxy, type TcpProxy } from "../../harness/tcp-proxy.ts";
import { createTempFolders } from "../../harness/temp-folders.ts";
import { lostWrites, nothingAcknowledged, writeUntilKilled } from "../killed-writer.ts";

const writerKills = 5;
const serverKills = 3;

test("a URI that can't be read is refused with a reason that quotes no part of it", async () => {
  for (const uri of [
    "mongodb://user:pass:word@",
    "postgres://user:pass:word@h/",
    "mongodb://u:pass:word@h:x/",
  ]) {
    const refusal = await openMongoForTest({ uri }).catch((thrown: unknown) => thrown);
    expect(refusal).toBeInstanceOf(StartRefused);
    expect((refusal as Error).message).toContain("KEYRUN_MONGODB_URI can't be read");
    expect(JSON.stringify([refusal, String((refusal as Error).cause)])).not.toContain("word");
  }
});

describeWith(mongodbMissing)("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  describe("a second instance", () => {
    test("is refused with a reason while the first lives, and starts once the first has left", async () => {
      const uri = databases.createUri();
      const first = await openMongoForTest({ uri });
      const told: number[] = [];
      const second = openMongoForTest({
        uri,
        events: { ...silentInstanceEvents, onWaiting: (waitMsMax) => told.push(waitMsMax) },
      });
      await expect(second).rejects.toThrow(
        /Another Keyrun serves this MongoDB database .*KEYRUN_MONGODB_URI/,
      );
      expect(told).toEqual([500]);
      expect(first.guard.isValid()).toBe(true);
      await first.close();
      const third = await openMongoForTest({ uri });
      expect(third.guard.isValid()).toBe(true);
      await third.close();
    });

    test("may take over from a first that is cut off, which then answers every call with UNAVAILABLE, writes too", async () => {
      const uri = databases.createUri();
      const proxy = await openTcpProxy(serverAddress());
      const lost = vi.fn();
      const first = await openMongoForTest({
        uri: through(uri, proxy),
        times: shortInstanceTimes,
        events: { ...silentInstanceEvents, onLost: lost },
      });
      await first.teams.insert(teamRecordOf({ id: "demo" }));
      proxy.freeze();
      // It waits no longer than the first one's lapse, and holds on through a pause of the machine.
      const second = await openMongoForTest({ uri, times: { ...shortInstanceTimes, leaseMs: 60_000 } });
      expect(first.guard.isValid()).toBe(false);
      proxy.mend();
      await vi.waitFor(() => expect(lost).toHaveBeenCalledTimes(1), { timeout: 60_000 });
      await expect(first.teams.find("demo")).rejects.toMatchObject({ reason: "UNAVAILABLE" });
      await expect(first.teams.update("demo", { plan: "pro" })).rejects.toMatchObject({
        reason: "UNAVAILABLE",
      });
      await expect(first.check()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
      expect((await second.teams.find("demo"))?.plan).toBe("free");
      await first.close();
      expect(second.guard.isValid()).toBe(true);
      await second.check();
      await second.close();
      await proxy.close();
    });
  });

  describe("out of reach", () => {
    let proxy: TcpProxy;
    let stores: Stores;
    // The limit of one operation: enough for a busy machine, and short enough to wait for.
    const callMsMax = 3_000;

    beforeAll(async () => {
      proxy = await openTcpProxy(serverAddress());
      const uri = through(databases.createUri(), proxy);
      stores = await openMongoForTest({ uri, callMsMax, reconnectMs: callMsMax });
      await stores.keys.insert(keyRecordOf({ id: "k", teamId: "demo" }), { activeMax: 50 });
    });
    afterAll(async () => {
      await stores.close();
      await proxy.close();
    });

    const by = { revokeTimeMs: 1, revokedBy: "a service" };
    const everyMethod = ({ keys, teams, members, preview, apps, check, isEmpty }: Stores) => ({
      insertKey: () => keys.insert(keyRecordOf({ id: "new", teamId: "demo" }), { activeMax: 50 }),
      findKey: () => keys.find("k"),
      listKeys: () => keys.list({ teamId: "demo", limit: 10, includeRevoked: true }),
      countActive: () => keys.countActive("demo"),
      revoke: () => keys.revoke({ teamId: "demo", keyId: "k", ...by }),
      recordUses: () => keys.recordUses(new Map([["k", 5]])),
      secretVersions: () => keys.secretVersions(),
      insertTeam: () => teams.insert(teamRecordOf({ id: "demo" })),
      findTeam: () => teams.find("demo"),
      listTeams: () => teams.list({ limit: 10 }),
      updateTeam: () => teams.update("demo", { plan: "pro" }),
      addMember: () => members.add({ teamId: "demo", email: "a@b.de", createTimeMs: 1 }),
      removeMember: () => members.remove("demo", "a@b.de"),
      findMember: () => members.find("demo", "a@b.de"),
      listMembers: () => members.list({ teamId: "demo", limit: 10 }),
      teamIdsOf: () => members.teamIdsOf("a@b.de", 10),
      setPreview: () => preview.set("a@b.de", true),
      hasPreview: () => preview.has("a@b.de"),
      listPreview: () => preview.list({ limit: 10 }),
      insertApp: () => apps.insert(newAppOf({ id: "echo" })),
      findApp: () => apps.find("echo"),
      listApps: () => apps.list({ limit: 10 }),
      updateApp: () => apps.update("echo", { timeoutMs: 5 }),
      deleteApp: () => apps.delete("echo"),
      check: () => check(),
      isEmpty: () => isEmpty(),
    });

    test.for(["freeze", "cut"] as const)(
      "every method is UNAVAILABLE in time on a network fault (%s), and works again once the network does",
      async (fault) => {
        proxy[fault]();
        const methods = everyMethod(stores);
        const outcomes = await Promise.all(
          Object.entries(methods).map(async ([name, method]) => {
            const outcome = await Promise.resolve(method()).catch((thrown: unknown) => thrown);
            return [
              name,
              (outcome as { reason?: string }).reason,
              (outcome as { retryAfterMs?: number }).retryAfterMs,
            ];
          }),
        );
        expect(outcomes).toEqual(Object.keys(methods).map((name) => [name, "UNAVAILABLE", 1_000]));
        proxy.mend();
        await vi.waitFor(() => stores.check(), { timeout: 60_000 });
        expect((await stores.keys.find("k"))?.id).toBe("k");
      },
    );
  });

  test("a missing server is reported with a reason that names the host, and nothing of the login", async () => {
    const proxy = await openTcpProxy(serverAddress());
    await proxy.close();
    const uri = `mongodb://user:password@127.0.0.1:${proxy.port}/keyrun`;
    const refusal = await openMongoForTest({ uri, startMsMax: 500 }).catch((thrown: unknown) => thrown);
    expect(refusal).toBeInstanceOf(StartRefused);
    expect((refusal as Error).message).toBe(
      `MongoDB at 127.0.0.1:${proxy.port} can't be reached: connect ECONNREFUSED 127.0.0.1:${proxy.port}. Check that it runs, and KEYRUN_MONGODB_URI.`,
    );
  });

  test("a document that does not fit the schema is INTERNAL, and the cause names its id and field but no value", async () => {
    const uri = databases.createUri();
    const stores = await openMongoForTest({ uri });
    await stores.keys.insert(keyRecordOf({ id: "k", teamId: "demo" }), { activeMax: 50 });
    const headers = [{ name: "authorization", value: "Bearer of-the-app" }];
    await stores.apps.insert(newAppOf({ id: "a", backend: { kind: "http", url: "http://a/", headers } }));
    await withClient(uri, async (client) => {
      await client
        .db()
        .collection("keys")
        .updateOne({}, { $set: { digest: 7, surprise: "of-the-key" } });
      await client
        .db()
        .collection("apps")
        .updateOne({}, { $set: { "backend.url": "" } });
    });
    const causeOf = async (work: Promise<unknown>) => {
      const refusal = await work.catch((thrown: unknown) => thrown);
      expect(refusal).toMatchObject({ reason: "INTERNAL" });
      return String((refusal as Error).cause);
    };
    const reads = [
      () => stores.keys.find("k"),
      () => stores.keys.list({ teamId: "demo", limit: 1, includeRevoked: true }),
    ];
    for (const read of reads) {
      const cause = await causeOf(read());
      expect(cause).toContain("keys/k does not fit the store's schema at digest");
      expect(cause).not.toContain("of-the");
    }
    expect(await causeOf(stores.apps.find("a"))).toBe(
      "RecordMisfit: apps/a does not fit the store's schema at backend.url",
    );
    await stores.close();
  });

  test("a field that a newer Keyrun wrote is ignored in every document, and stays there", async () => {
    const uri = databases.createUri();
    const stores = await openMongoForTest({ uri });
    const key = keyRecordOf({ id: "k", teamId: "demo" });
    const team = teamRecordOf({ id: "demo" });
    const backend = { kind: "grpc", target: "a:1", tls: false } as const;
    await stores.keys.insert(key, { activeMax: 50 });
    await stores.teams.insert(team);
    const app = await stores.apps.insert(newAppOf({ id: "a", backend }));
    const member = await stores.members.add({ teamId: "demo", email: "ada@example.com", createTimeMs: 1 });
    const session = { idHash: "h", issuer: "i", subject: "s", email: "ada@example.com" };
    const times = { createTimeMs: 1, lastActiveTimeMs: 1, expireTimeMs: 9 };
    await stores.sessions.insert({ ...session, ...times }, { perUserMax: 5 });
    const record = runRecordOf({ id: "r" });
    await stores.runs.write([{ kind: "insert", id: "r", record }]);
    await withClient(uri, async (client) => {
      const newer = { $set: { newer: { field: 1 } } };
      for (const name of ["keys", "teams", "apps", "members", "sessions", "runs", "control"])
        await client.db().collection(name).updateMany({}, newer);
      await client
        .db()
        .collection("apps")
        .updateMany({}, { $set: { "backend.newer": 1 } });
    });
    expect(await stores.keys.find("k")).toEqual(key);
    expect(await stores.teams.find("demo")).toEqual(team);
    expect(await stores.apps.find("a")).toEqual(app);
    expect(await stores.members.list({ teamId: "demo", limit: 5 })).toEqual([member]);
    expect(await stores.sessions.find("h")).toEqual({ ...session, ...times });
    expect(await stores.runs.find("r")).toEqual(record);
    await stores.teams.update("demo", { plan: "pro" });
    const kept = await withClient(uri, (client) => client.db().collection("teams").findOne());
    expect(kept).toMatchObject({ plan: "pro", newer: { field: 1 } });
    await stores.close();
  });

  test("a deleted app's document holds no credentials", async () => {
    const uri = databases.createUri();
    const stores = await openMongoForTest({ uri });
    const headers = [{ name: "authorization", value: "Bearer of-the-app" }];
    await stores.apps.insert(newAppOf({ id: "a", backend: { kind: "http", url: "http://a/", headers } }));
    await stores.apps.delete("a");
    const documents = await withClient(uri, (client) => client.db().collection("apps").find().toArray());
    expect(documents).toHaveLength(1);
    expect(JSON.stringify(documents)).not.toContain("of-the-app");
    await stores.close();
  });

  test("a database that a newer Keyrun wrote is refused with a reason, left as it was, and released", async () => {
    const uri = databases.createUri();
    await (await openMongoForTest({ uri })).close();
    const newer = { $set: { version: 1_000 } };
    await withClient(uri, (client) =>
      client.db().collection<{ _id: string }>("meta").updateOne({ _id: "schema" }, newer),
    );
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(openMongoForTest({ uri })).rejects.toThrow(/newer Keyrun .* number 1000/);
    }
  });

  test(`kill -9 of the writing process, ${writerKills} times, loses and revives nothing acknowledged`, async () => {
    const uri = databases.createUri();
    const acknowledged = nothingAcknowledged();
    for (let life = 0; life < writerKills; life++) {
      await forgetInstance(uri);
      await writeUntilKilled(acknowledged, {
        place: uri,
        firstNumber: life * 1_000_000,
        lines: 12 + life * 5,
      });
    }
    await forgetInstance(uri);
    const stores = await openMongoForTest({ uri });
    expect(acknowledged.revoked.size).toBeGreaterThan(writerKills);
    expect(await lostWrites(stores, acknowledged)).toEqual([]);
    await stores.close();
  });
});

// The server of a whole run is not killed for one file: a second one is started.
describeWith(mongodbMissing ?? (process.env.KEYRUN_TEST_MONGODB_URI && "KEYRUN_TEST_MONGODB_URI is given"))(
  "with a MongoDB server to kill",
  () => {
    const folders = createTempFolders();
    let server: MongoServer | undefined;
    afterAll(async () => {
      await server?.kill();
      folders.remove();
    });

    test(`kill -9 of the server, ${serverKills} times, loses and revives nothing acknowledged`, async () => {
      const program = mongoServerProgram();
      if ("missing" in program) throw new Error(program.missing);
      const dataDir = folders.create();
      const acknowledged = nothingAcknowledged();
      for (let life = 0; life < serverKills; life++) {
        const running = await program.start(dataDir);
        server = running;
        const place = withDatabase(running.uri, "keyrun");
        await forgetInstance(place);
        await writeUntilKilled(acknowledged, {
          place,
          firstNumber: life * 1_000_000,
          lines: 20 + life * 7,
          kill: () => running.kill(),
        });
      }
      server = await program.start(dataDir);
      const uri = withDatabase(server.uri, "keyrun");
      await forgetInstance(uri);
      const stores = await openMongoForTest({ uri });
      expect(acknowledged.revoked.size).toBeGreaterThan(serverKills);
      expect(await lostWrites(stores, acknowledged)).toEqual([]);
      await stores.close();
    });
  },
);

/** Removes the lease of an instance that was killed, instead of waiting until it lapses. */
function forgetInstance(uri: string): Promise<unknown> {
  return withClient(uri, (client) => client.db().collection("control").deleteMany({}));
}

async function withClient<T>(uri: string, work: (client: MongoClient) => Promise<T>): Promise<T> {
  const client = await new MongoClient(uri).connect();
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

function serverAddress(): { host: string; port: number } {
  const [host = "", port = "27017"] = new MongoClient(mongodbUri).options.hosts.map(String)[0]!.split(":");
  return { host, port: Number(port) };
}

/** The URI of the same database, reached through the proxy alone. */
function through(uri: string, { port }: TcpProxy): string {
  return `${uri.replace(/\/\/(.*@)?[^/?]+/, `//$1127.0.0.1:${port}`).replace(/\?.*/, "")}?directConnection=true`;
}
