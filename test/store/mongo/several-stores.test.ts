import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import type { StoreCall } from "#src/store/mongo/store-call.ts";
import { createMemberStore } from "#src/store/mongo/team-store.ts";
import type { Stores } from "#src/store/stores.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { openMongoForTest } from "../../harness/open-mongo.ts";
import { keyRecordOf, newAppOf, runRecordOf, teamRecordOf } from "../../harness/store-records.ts";

describeWith(mongodbMissing)("several instances on one database, at once", () => {
  const databases = createMongoDatabases();
  let instances: Stores[] = [];
  let uri = "";
  beforeAll(async () => {
    uri = databases.createUri();
    instances = await Promise.all([1, 2, 3].map(() => openMongoForTest({ uri, fleet: true })));
  });
  afterAll(async () => {
    for (const stores of instances) await stores.close();
    await databases.drop();
  });

  /** Calls each instance so many times, all at once. */
  const each = <T>(times: number, call: (stores: Stores, n: number, place: number) => Promise<T>) =>
    Promise.all(
      instances.flatMap((stores, place) => Array.from({ length: times }, (_, n) => call(stores, n, place))),
    );
  const email = "ada@example.com";

  test("a team and an app of one id are made once", async () => {
    const teams = await each(3, (stores) => stores.teams.insert(teamRecordOf({ id: "one" })));
    const apps = await each(3, (stores) => stores.apps.insert(newAppOf({ id: "one" })));
    expect([teams, apps].map((made) => made.filter((record) => record !== undefined).length)).toEqual([1, 1]);
  });

  test("every change of a team has a version of its own", async () => {
    await instances[0]!.teams.insert(teamRecordOf({ id: "changed" }));
    const changed = await each(5, (stores, n) => stores.teams.update("changed", { displayName: `${n}` }));
    const versions = changed.map((record) => record!.version);
    expect(versions.sort((a, b) => a - b)).toEqual(Array.from({ length: 15 }, (_, n) => n + 2));
  });

  test("of two deletions of a team, only the one that marked it last is done", async () => {
    await instances[0]!.teams.insert(teamRecordOf({ id: "deleted" }));
    const marked = await each(1, (stores) => stores.teams.update("deleted", { state: "ending" }));
    const deleted = await each(1, (stores, _, place) =>
      stores.teams.delete("deleted", marked[place]!.version),
    );
    expect(deleted.filter((version) => version !== undefined)).toEqual([5]);
    expect(await each(1, (stores) => stores.teams.deletedVersion("deleted"))).toEqual([5, 5, 5]);
  });

  test("a team never gets more active keys than it may have", async () => {
    const outcomes = await each(10, (stores, n, place) =>
      stores.keys.insert(keyRecordOf({ id: `k${place}-${n}`, teamId: "keys" }), { activeMax: 7 }),
    );
    expect(outcomes.filter(({ kind }) => kind === "inserted")).toHaveLength(7);
    expect(await instances[0]!.keys.countActive("keys")).toBe(7);
  });

  test("a revocation keeps its first time, whichever instance is asked again", async () => {
    await instances[0]!.keys.insert(keyRecordOf({ id: "r", teamId: "revoked" }), { activeMax: 7 });
    const revoked = await each(3, (stores, n, place) =>
      stores.keys.revoke({ teamId: "revoked", keyId: "r", revokeTimeMs: place * 3 + n, revokedBy: "ada" }),
    );
    expect(new Set(revoked.map((key) => key!.revokeTimeMs)).size).toBe(1);
  });

  test("the last use is the latest that any of them saw", async () => {
    await instances[0]!.keys.insert(keyRecordOf({ id: "u", teamId: "used" }), { activeMax: 7 });
    await each(5, (stores, n, place) => stores.keys.recordUses(new Map([["u", 100 + place * 5 + n]])));
    expect((await instances[1]!.keys.find("u"))?.lastUseTimeMs).toBe(114);
  });

  test("a person keeps no more sessions than the bound, and never loses the one that began last", async () => {
    const session = { issuer: "i", subject: "s", email, lastActiveTimeMs: 1, expireTimeMs: 9 };
    const idHashOf = (place: number, n: number) => `h${place}-${n}`;
    await each(10, (stores, n, place) =>
      stores.sessions.insert({ ...session, idHash: idHashOf(place, n), createTimeMs: n }, { perUserMax: 20 }),
    );
    const found = await each(10, (stores, n, place) => stores.sessions.find(idHashOf(place, n)));
    const left = found.filter((record) => record !== undefined);
    expect(left.length).toBeLessThanOrEqual(20);
    expect(left.filter(({ createTimeMs }) => createTimeMs === 9)).toHaveLength(3);
  });

  test("an e-mail gets one owner, whichever instance each of them signs in on", async () => {
    const bound = await each(2, (stores, n, place) =>
      stores.users.bind({ email, issuer: "i", subject: `s${place}-${n}` }),
    );
    expect(bound.filter(Boolean)).toHaveLength(1);
  });

  test("a member is added once, and preview access is given once", async () => {
    const added = await each(3, (stores, n, place) =>
      stores.members.add({ teamId: "members", email, createTimeMs: place * 3 + n + 1 }),
    );
    expect(new Set(added.map(({ createTimeMs }) => createTimeMs)).size).toBe(1);
    await each(3, (stores) => stores.preview.set(email, true));
    expect(await instances[2]!.preview.list({ limit: 5 })).toEqual([email]);
  });

  test("a removal of members that stands still in the middle spares those of a new team with the id", async () => {
    const { client, db } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
    onTestFinished(() => client.close());
    const [other] = instances;
    await other!.members.add({ teamId: "reused", email, createTimeMs: 1 });
    let calls = 0;
    const asleep: StoreCall = async (work) => {
      calls += 1;
      if (calls === 2) {
        expect(await other!.members.removeAll("reused", 5)).toBe(1);
        await other!.members.add({ teamId: "reused", email, createTimeMs: 2 });
      }
      return await work();
    };
    const sleeper = createMemberStore(collectionsOf(db), asleep, (write) => write());
    expect(await sleeper.removeAll("reused", 5)).toBe(0);
    expect(await other!.members.find("reused", email)).toBeDefined();
  });

  test("an Idempotency-Key is claimed by one run, and the others meet its record", async () => {
    const claims = await each(4, (stores, n, place) => {
      const record = runRecordOf({ id: `run-${place}-${n}`, keyHash: "key" });
      return stores.runs.write([{ kind: "insert", id: record.id, record }]);
    });
    const met = claims.flat().filter((record) => record !== undefined);
    expect(met).toHaveLength(11);
    expect(new Set(met.map(({ id }) => id)).size).toBe(1);
  });
});
