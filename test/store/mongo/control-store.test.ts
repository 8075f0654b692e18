import { randomUUID } from "node:crypto";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import type { ControlStore } from "#src/fleet/control-store.ts";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { createControlStore } from "#src/store/mongo/control-store.ts";
import { type Collections, collectionsOf } from "#src/store/mongo/documents.ts";
import { createStoreCall } from "#src/store/mongo/store-call.ts";
import { instanceFactsOf } from "../../harness/instance-facts.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";

describeWith(mongodbMissing)("the control document in MongoDB", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  async function open(): Promise<{ control: ControlStore; document: Collections["control"] }> {
    const patient = { selectionMsMax: 20_000, socketMsMax: 20_000 };
    const { client, db } = await connectMongo(databases.createUri(), patient);
    onTestFinished(() => client.close());
    const collections = collectionsOf(db);
    const control = createControlStore(collections, { call: createStoreCall(20_000), readOptions: {} });
    return { control, document: collections.control };
  }
  const only = { _id: "control" };

  test("a push on what a deposed primary had read loses nothing that took its number meanwhile", async () => {
    const { control, document } = await open();
    await control.push([{ kind: "key", id: "a", version: 2 }]);
    // The same number, another change: as after a rollback.
    await document.updateOne(only, { $set: { recent: '[["key","b",2]]' } });
    const { view } = await control.push([{ kind: "key", id: "c", version: 2 }]);
    expect(view.recent.map(({ seq, id }) => ({ seq, id }))).toEqual([
      { seq: 1, id: "b" },
      { seq: 2, id: "c" },
    ]);
  });

  test("an instance registers again once there is room, though there was none when it last looked", async () => {
    const { control, document } = await open();
    const [id, again] = [randomUUID(), randomUUID()];
    await control.register(id, instanceFactsOf());
    const lease = { n: 1, ack: 0, order: 1, facts: instanceFactsOf() };
    const others = Array.from({ length: bounds.controlLeasesMax - 1 }, () => `leases.${randomUUID()}`);
    await document.updateOne(only, { $set: Object.fromEntries(others.map((field) => [field, lease])) });
    expect((await control.read()).leases).toHaveLength(bounds.controlLeasesMax);
    // Others removed it while it stood still.
    await document.updateOne(only, { $unset: { [`leases.${id}`]: "" } });
    expect(await control.beat(id, { ack: 0, nSeen: 0 })).toBeUndefined();
    expect((await control.register(again, instanceFactsOf())).leases).toHaveLength(bounds.controlLeasesMax);
  });

  test("what a newer Keyrun wrote beside is ignored, and stays", async () => {
    const { control, document } = await open();
    const id = randomUUID();
    await control.register(id, instanceFactsOf());
    const newer = {
      more: { of: "it" },
      recent: '[["key","a",2,"acme","more"],["pepper","p",1],["team","acme",3,null,{"more":1}]]',
      seq: 3,
      [`leases.${id}.more`]: 1,
      [`leases.${id}.facts.more`]: 1,
    };
    await document.updateOne(only, { $set: newer });
    const expected = [
      { seq: 1, kind: "key", id: "a", version: 2, teamId: "acme" },
      { seq: 3, kind: "team", id: "acme", version: 3 },
    ];
    const seen = await control.beat(id, { ack: 3, nSeen: 0 });
    expect(seen?.recent).toEqual(expected);
    expect(seen?.leases).toEqual([{ id, n: 2, ack: 3, order: 1, facts: instanceFactsOf() }]);
    const { view } = await control.push([{ kind: "app", id: "echo", version: 2 }]);
    expect(view.recent).toEqual([...expected, { seq: 4, kind: "app", id: "echo", version: 2 }]);
    expect(await document.findOne(only)).toMatchObject({
      more: { of: "it" },
      recent:
        '[["key","a",2,"acme","more"],["pepper","p",1],["team","acme",3,null,{"more":1}],["app","echo",2]]',
      leases: { [id]: { more: 1, facts: { more: 1 } } },
    });
  });

  test("a document that does not fit is refused with its place, and nothing of its contents", async () => {
    const { control, document } = await open();
    const id = randomUUID();
    await control.register(id, instanceFactsOf());
    for (const wrong of ["of-nobody", '[["key","of-nobody"]]', '{"key":"of-nobody"}']) {
      await document.updateOne(only, { $set: { recent: wrong } });
      const refusal = await control.beat(id, { ack: 0, nSeen: 0 }).catch((thrown: unknown) => thrown);
      expect(refusal).toMatchObject({ reason: "INTERNAL" });
      expect(String((refusal as Error).cause)).toMatch(/control\.recent does not fit/);
      expect(String((refusal as Error).cause)).not.toContain("of-nobody");
    }
  });

  test("there is room for 64 instances; the next one is refused until one is gone", async () => {
    const { control } = await open();
    const ids = Array.from({ length: 64 }, () => randomUUID());
    for (const id of ids) await control.register(id, instanceFactsOf());
    await expect(control.register(randomUUID(), instanceFactsOf())).rejects.toMatchObject({
      reason: "UNAVAILABLE",
    });
    expect((await control.read()).leases).toHaveLength(64);
    await control.remove(ids[5]!);
    const { leases } = await control.register(randomUUID(), instanceFactsOf());
    expect(leases).toHaveLength(64);
    expect(leases.at(-1)?.order).toBe(65);
  });

  test("an id that is no UUID is refused, as it would become the name of a field", async () => {
    const { control } = await open();
    for (const id of ["", "a.b", "$where", "__proto__", `${randomUUID()}.n`, randomUUID().toUpperCase()]) {
      await expect(control.register(id, instanceFactsOf())).rejects.toThrow();
      await expect(control.beat(id, { ack: 0, nSeen: 0 })).rejects.toThrow();
      await expect(control.remove(id)).rejects.toThrow();
    }
    expect(await control.read()).toEqual({ seq: 0, recent: [], leases: [] });
  });
});
