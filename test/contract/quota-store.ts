import { describe, expect, test } from "vitest";
import type { QuotaClaim, QuotaPlace } from "#src/quota/quota-store.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

const month = Date.UTC(2026, 10);

export function quotaStoreContract(name: string, open: OpenStores): void {
  describe(`QuotaStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const quotas = () => stores().quotas;
    const newPlace = (): QuotaPlace => {
      const teamId = newPrefix();
      return { id: `${teamId}/2026-11`, teamId, period: "month", startTimeMs: month };
    };
    let seq = 0;
    const claimOf = (place: QuotaPlace, facts: Partial<QuotaClaim> = {}): QuotaClaim => ({
      ...{ place, limit: 1_000, wanted: 1, held: 0, blockMax: 100, owner: "i1", seq: ++seq, gone: [] },
      ...facts,
    });
    async function claim(place: QuotaPlace, facts: Partial<QuotaClaim> = {}) {
      const [answer] = await quotas().claim([claimOf(place, facts)]);
      if (answer?.status !== "fulfilled") throw answer?.reason;
      return answer.value;
    }

    test("a claim is given a block, what callers wait for, or what is left, and never more", async () => {
      const place = newPlace();
      expect(await claim(place)).toMatchObject({ given: 20, record: { claimed: 20, granted: 0 } });
      expect((await claim(place, { wanted: 5, held: 19 })).given).toBe(5);
      expect((await claim(place, { wanted: 0, held: 15 })).given).toBe(4);
      expect((await claim(place, { blockMax: 3 })).given).toBe(3);
      expect((await claim(place, { wanted: 2_000 })).given).toBe(1_000 - 32);
      expect(await claim(place)).toMatchObject({ given: 0, record: { claimed: 1_000 } });
      expect((await claim(place, { limit: 900 })).given).toBe(0);
      expect((await quotas().find(place.id))?.claimed).toBe(1_000);
    });

    test("what a claim saw before may be out of date", async () => {
      const place = newPlace();
      await claim(place, { wanted: 990 });
      const seen = { claimed: 0, granted: 0 };
      expect(await claim(place, { wanted: 20, seen })).toMatchObject({
        given: 10,
        record: { claimed: 1_000 },
      });
      expect((await claim(place, { seen })).given).toBe(0);
      await quotas().grant(place, { requests: 7, requestId: "r" });
      expect((await claim(place, { wanted: 20, seen: { claimed: 1_000, granted: 0 } })).given).toBe(7);
      expect((await claim(place, { wanted: 1, seen: { claimed: 0, granted: 5_000 } })).given).toBe(0);
    });

    test("below 100 left, a block is one request", async () => {
      const place = newPlace();
      await claim(place, { wanted: 901 });
      for (let left = 99; left > 97; left--) expect((await claim(place)).given).toBe(1);
    });

    test("claims at once never take more than there is, and all of it", async () => {
      const place = newPlace();
      const owners = ["i1", "i2", "i3"];
      const one = (owner: string) =>
        quotas().claim(Array.from({ length: 4 }, () => claimOf(place, { limit: 30, wanted: 5, owner })));
      const answers = (await Promise.all(owners.map(one))).flat();
      const given = answers.flatMap((each) => (each.status === "fulfilled" ? [each.value.given] : []));
      expect(given).toHaveLength(12);
      expect(given.reduce((sum, n) => sum + n, 0)).toBe(30);
      expect((await quotas().find(place.id))?.claimed).toBe(30);
    });

    test("unspent requests go back once, by the claim that holds them", async () => {
      const place = newPlace();
      const [first, second] = [++seq, ++seq];
      await claim(place, { seq: first });
      await claim(place, { owner: "i2", seq: 1 });
      const back = { id: place.id, owner: "i1", seq: first, unspent: 15 };
      const claimed = async () => (await quotas().find(place.id))?.claimed;
      const all = await claimed();
      await quotas().giveBack([
        { ...back, seq: first + 100 },
        { ...back, owner: "i3" },
        { ...back, id: "other/2026-11" },
      ]);
      expect(await claimed()).toBe(all);
      for (let time = 0; time < 2; time++) {
        await quotas().giveBack([back]);
        expect(await claimed()).toBe((all ?? 0) - 15);
        expect(Object.keys((await quotas().find(place.id))?.holds ?? {})).toEqual(["i2"]);
      }
      await claim(place, { seq: second, held: 2 });
      await quotas().giveBack([back]);
      expect((await quotas().find(place.id))?.holds.i1).toMatchObject({ seq: second });
      await quotas().giveBack([]);
    });

    test("a hold is what was held and what was given, and those of the gone are forgotten", async () => {
      const place = newPlace();
      await claim(place, { owner: "gone-1" });
      await claim(place, { owner: "gone-2" });
      const { record } = await claim(place, { seq: 77, held: 4, wanted: 30, gone: ["gone-1", "never"] });
      expect(record.holds).toMatchObject({ i1: { seq: 77, unspent: 34 }, "gone-2": {} });
      expect(record.holds).not.toHaveProperty("gone-1");
    });

    test("a grant counts once for its request id, also raced with its own repeat", async () => {
      const place = newPlace();
      const grant = (requests: number, requestId: string) => quotas().grant(place, { requests, requestId });
      const same = await Promise.all([grant(50, "a"), grant(50, "a"), grant(50, "a")]);
      for (const each of same) expect(each.granted).toBe(50);
      expect((await grant(8, "b")).granted).toBe(58);
      expect(await grant(50, "a")).toMatchObject({ granted: 58, claimed: 0, grantIds: ["a", "b"] });
      expect((await claim(place, { limit: 1, wanted: 100 })).given).toBe(59);
    });

    test("the newest period of a kind is found, and old records and those of a team are removed", async () => {
      const [place, other] = [newPlace(), newPlace()];
      const day = {
        ...place,
        id: `${place.teamId}/2036-12-01`,
        startTimeMs: Date.UTC(2036, 11, 1),
        period: "day",
      } as const;
      const old = { ...other, id: `${other.teamId}/2020-11`, startTimeMs: Date.UTC(2020, 10) };
      for (const each of [place, other, day, old]) await claim(each);
      expect(await quotas().newestStartMs("month")).toBe(month);
      expect(await quotas().newestStartMs("day")).toBe(day.startTimeMs);
      expect(await quotas().deleteBefore({ beforeMs: month, limit: 0 })).toBe(0);
      expect(await quotas().deleteBefore({ beforeMs: month, limit: 10 })).toBe(1);
      expect(await quotas().find(old.id)).toBeUndefined();
      expect(await quotas().deleteOfTeam(place.teamId, 1)).toBe(1);
      expect(await quotas().deleteOfTeam(place.teamId, 10)).toBe(1);
      expect(await quotas().find(day.id)).toBeUndefined();
      expect(await quotas().find(other.id)).toBeDefined();
    });
  });
}
