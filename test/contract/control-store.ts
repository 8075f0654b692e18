import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { ControlChange, ControlStore, InstanceLimits } from "#src/fleet/control-store.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";

/**
 * `open` opens an empty document, and gives as many stores on it as are asked for: each is another
 * process.
 */
export function controlStoreContract(
  name: string,
  open: (processes: number) => Promise<readonly [ControlStore, ...ControlStore[]]>,
): void {
  const key = (id: string, version = 2): ControlChange => ({ kind: "key", id, version });

  describe(`ControlStore on ${name}`, () => {
    test("a new fleet has no changes and no instances", async () => {
      const [control] = await open(1);
      expect(await control.read()).toEqual({ seq: 0, recent: [], leases: [] });
    });

    test("an instance registers as live at the last change, and the view is in the order of registration", async () => {
      const [control, other] = await open(2);
      const [first, second] = [randomUUID(), randomUUID()];
      const facts = instanceFactsOf({ address: null });
      const joined = await control.register(first, facts);
      expect(joined.leases).toEqual([{ id: first, n: 1, ack: 0, order: 1, facts }]);
      await other!.push([key("a"), key("b")]);
      const later = await control.register(second, instanceFactsOf());
      expect(later.leases.map(({ id, order, ack }) => ({ id, order, ack }))).toEqual([
        { id: first, order: 1, ack: 0 },
        { id: second, order: 2, ack: 2 },
      ]);
      expect(await other!.read()).toEqual(later);
    });

    test("of eight instances that register at once, each has a record and an order of its own", async () => {
      const stores = await open(8);
      const ids = stores.map(() => randomUUID());
      await Promise.all(stores.map((store, place) => store.register(ids[place]!, instanceFactsOf())));
      const { leases } = await stores[0].read();
      expect(leases.map(({ order }) => order)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      expect(leases.map(({ id }) => id).sort()).toEqual(ids.sort());
    });

    test("an id registers once: a second time changes nothing", async () => {
      const [control, other] = await open(2);
      const id = randomUUID();
      await control.register(id, instanceFactsOf());
      await control.beat(id, { ack: 0, nSeen: 0 });
      const before = await control.read();
      for (const store of [control, other!]) {
        await store.register(id, instanceFactsOf({ keyPrefix: "other" })).catch(() => {});
      }
      expect(await control.read()).toEqual(before);
    });

    test("an order is never given again, also after every instance has left", async () => {
      const [control] = await open(1);
      const [first, second] = [randomUUID(), randomUUID()];
      await control.register(first, instanceFactsOf());
      await control.remove(first);
      const { leases } = await control.register(second, instanceFactsOf());
      expect(leases).toMatchObject([{ id: second, order: 2 }]);
    });

    test("a heartbeat raises n by one and ack as far as it says, never back, and shows the newest changes", async () => {
      const [control, other] = await open(2);
      const id = randomUUID();
      await control.register(id, instanceFactsOf());
      await other!.push([key("a"), key("b"), key("c")]);
      const view = await control.beat(id, { ack: 2, nSeen: 0 });
      expect(view).toMatchObject({ seq: 3, leases: [{ id, n: 2, ack: 2 }] });
      expect(view?.recent.map((change) => change.id)).toEqual(["a", "b", "c"]);
      expect((await control.beat(id, { ack: 1, nSeen: 0 }))?.leases).toMatchObject([{ n: 3, ack: 2 }]);
    });

    test("a registration and each heartbeat note how the instance counts, for all to see", async () => {
      const [control, other] = await open(2);
      const id = randomUUID();
      const before: InstanceLimits = { mode: "refuse", redisMark: null, share: null };
      await control.register(id, instanceFactsOf(), before);
      expect((await other!.read()).leases).toMatchObject([{ id, limits: before }]);
      const limits: InstanceLimits = { mode: "shared", redisMark: "0a1b2c3d", share: "2/3" };
      expect((await control.beat(id, { ack: 0, nSeen: 0, limits }))?.leases).toMatchObject([{ id, limits }]);
      // One of an older version says nothing, and nothing is forgotten.
      await control.beat(id, { ack: 0, nSeen: 0 });
      expect((await other!.read()).leases).toMatchObject([{ id, n: 3, limits }]);
    });

    test("a heartbeat of an unknown or a removed instance changes nothing", async () => {
      const [control, other] = await open(2);
      const [stays, removed] = [randomUUID(), randomUUID()];
      expect(await control.beat(stays, { ack: 0, nSeen: 0 })).toBeUndefined();
      for (const id of [stays, removed]) await control.register(id, instanceFactsOf());
      await other!.remove(removed);
      const before = await control.read();
      expect(await control.beat(removed, { ack: 7, nSeen: 0 })).toBeUndefined();
      expect(await control.read()).toEqual(before);
      expect(before.leases).toMatchObject([{ id: stays }]);
    });

    test("a heartbeat of a record that went back changes nothing", async () => {
      const [control] = await open(1);
      const id = randomUUID();
      await control.register(id, instanceFactsOf());
      await control.beat(id, { ack: 0, nSeen: 1 });
      const before = await control.read();
      expect(await control.beat(id, { ack: 7, nSeen: 3 })).toBeUndefined();
      expect(await control.read()).toEqual(before);
      expect((await control.beat(id, { ack: 0, nSeen: 2 }))?.leases).toMatchObject([{ id, n: 3 }]);
    });

    test("the share of one that leaves goes to one other instance, and a second one gets none", async () => {
      const [control, other] = await open(2);
      const [leaves, heir, late] = [randomUUID(), randomUUID(), randomUUID()];
      for (const id of [leaves, heir, late]) await control.register(id, instanceFactsOf());
      const share = { slot: 1, place: 0, of: 3 };
      await control.vacate(leaves, share);
      await control.vacate(leaves, { ...share, of: 9 });
      expect((await other!.read()).vacant).toEqual([share]);
      expect(await control.takeOver(heir, { ...share, of: 2 })).toBe(false);
      expect(await control.takeOver(heir, { ...share, slot: 2 })).toBe(false);
      expect(await control.takeOver(randomUUID(), share)).toBe(false);
      const taken = await Promise.all([control.takeOver(heir, share), other!.takeOver(late, share)]);
      expect(taken.toSorted()).toEqual([false, true]);
      const { leases, vacant } = await other!.read();
      expect(vacant).toBeUndefined();
      expect(leases.map((lease) => lease.share)).toEqual(taken.map((isHeir) => (isHeir ? share : undefined)));
    });

    test("an instance takes over one share only", async () => {
      const [control] = await open(1);
      const [first, second, heir] = [randomUUID(), randomUUID(), randomUUID()];
      for (const id of [first, second, heir]) await control.register(id, instanceFactsOf());
      const [one, two] = [
        { slot: 1, place: 0, of: 3 },
        { slot: 2, place: 1, of: 3 },
      ];
      await control.vacate(first, one);
      await control.vacate(second, two);
      expect(await control.takeOver(heir, two)).toBe(true);
      expect(await control.takeOver(heir, one)).toBe(false);
      expect((await control.read()).vacant).toEqual([one]);
      await control.dropVacant(1);
      await control.dropVacant(1);
      expect(await control.read()).not.toHaveProperty("vacant");
    });

    test("each change gets a number of its own, and keeps what it says", async () => {
      const [control] = await open(1);
      const changes: ControlChange[] = [
        { kind: "key", id: "7k3f", version: 2, teamId: "acme" },
        { kind: "team", id: "acme", version: 9 },
        { kind: "app", id: "echo", version: 3 },
        { kind: "session", id: "h-_4", version: 2 },
        { kind: "member", id: 'acme/"ada \\ lovelace"@example.com', version: 0 },
        { kind: "preview", id: "ádá@example.com", version: 0 },
      ];
      const first = await control.push(changes.slice(0, 1));
      expect(first.seqs).toEqual({ first: 1, last: 1 });
      const { seqs, view } = await control.push(changes.slice(1));
      expect(seqs).toEqual({ first: 2, last: 6 });
      expect(view).toEqual({
        seq: 6,
        recent: changes.map((change, place) => ({ seq: place + 1, ...change })),
        leases: [],
      });
      expect(await control.read()).toEqual(view);
    });

    test("the last 256 changes are kept, also of more in one push", async () => {
      const [control] = await open(1);
      await control.push([key("before")]);
      const { seqs, view } = await control.push(Array.from({ length: 300 }, (_, n) => key(`k${n}`)));
      expect(seqs).toEqual({ first: 2, last: 301 });
      expect(view.recent).toHaveLength(256);
      expect(view.recent[0]).toEqual({ seq: 46, ...key("k44") });
      expect(view.recent.at(-1)).toEqual({ seq: 301, ...key("k299") });
      const next = await control.push([key("after")]);
      expect(next.view.recent.map(({ seq }) => seq)).toEqual(Array.from({ length: 256 }, (_, n) => 47 + n));
    });

    test("of eight processes that push at once no change is lost, and each knows where its own stand", async () => {
      const stores = await open(8);
      const id = randomUUID();
      await stores[0].register(id, instanceFactsOf());
      const pushes = stores.flatMap((store, process) =>
        Array.from({ length: 5 }, async (_, n) => {
          const changes = [key(`${process}-${n}-a`), key(`${process}-${n}-b`)];
          return { changes, ...(await store.push(changes)) };
        }),
      );
      // Heartbeats and other changes of the records don't disturb them.
      const beats = Array.from({ length: 10 }, () => stores[1]!.beat(id, { ack: 0, nSeen: 0 }));
      const pushed = await Promise.all(pushes);
      await Promise.all(beats);
      const { seq, recent, leases } = await stores[0].read();
      expect(seq).toBe(80);
      expect(recent.map((change) => change.seq)).toEqual(Array.from({ length: 80 }, (_, n) => n + 1));
      expect(leases).toMatchObject([{ n: 11 }]);
      for (const { changes, seqs } of pushed) {
        expect(recent.slice(seqs.first - 1, seqs.last)).toEqual(
          changes.map((change, place) => ({ seq: seqs.first + place, ...change })),
        );
      }
    });

    test("the limits and quotas of plans are those of the latest order, also when its record is gone", async () => {
      const [control, other] = await open(2);
      const [id, later] = [randomUUID(), randomUUID()];
      const [first, second, third] = [60, 600, 30].map((free, place) => ({
        order: place + 1,
        limits: { free, gold: 9 },
        quotas: { free: { requests: free, period: "day" }, gold: { requests: 9, period: "month" } } as const,
      }));
      await control.register(id, instanceFactsOf());
      await control.register(later, instanceFactsOf());
      expect(await control.bringPlanLimits(first!)).toBeUndefined();
      expect((await other!.beat(id, { ack: 0, nSeen: 0 }))?.planLimits).toEqual(first);
      expect(await other!.bringPlanLimits(third!)).toEqual(first);
      expect(await control.bringPlanLimits(second!)).toBeUndefined();
      await control.remove(later);
      expect((await other!.push([key("a")])).view.planLimits).toEqual(third);
      expect((await control.register(randomUUID(), instanceFactsOf())).planLimits).toEqual(third);
      expect((await control.read()).planLimits).toEqual(third);
    });

    test("of eight instances that bring limits at once, the one with the latest order prevails", async () => {
      const stores = await open(8);
      const brought = stores.map((_, place) => ({
        order: place + 1,
        limits: { free: place + 1 },
        quotas: {},
      }));
      await Promise.all(stores.map((store, place) => store.bringPlanLimits(brought[place]!)));
      expect((await stores[0].read()).planLimits).toEqual(brought.at(-1));
    });

    test("only a record that is as it was seen is removed as unchanged", async () => {
      const [control, other] = await open(2);
      const id = randomUUID();
      await control.register(id, instanceFactsOf());
      await control.beat(id, { ack: 0, nSeen: 0 });
      expect(await other!.removeUnchanged(id, { n: 1 })).toBe(false);
      expect(await other!.removeUnchanged(id, { n: 2 })).toBe(true);
      expect(await other!.removeUnchanged(id, { n: 2 })).toBe(false);
      await control.remove(id);
      expect((await control.read()).leases).toEqual([]);
    });
  });
}
