import { describe, expect, test } from "vitest";
import {
  claimQuota,
  type QuotaChange,
  type QuotaClaim,
  type QuotaPlace,
  quotaBounds,
  returnQuota,
} from "#src/quota/quota-store.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

const month = Date.UTC(2026, 10);

export function quotaStoreContract(name: string, open: OpenStores): void {
  describe(`QuotaStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const quotas = () => stores().quotas;
    const newPlace = (): QuotaPlace => {
      const teamId = newPrefix();
      return { id: `${teamId}/2026-11`, teamId, startTimeMs: month, version: 0 };
    };
    const claimOf = (facts: Partial<QuotaClaim> = {}): QuotaClaim => ({
      ...{ limit: 1_000, wanted: 1, held: 0, blockMax: 100, owner: "i1", isLive: () => true },
      ...facts,
    });
    async function change(place: QuotaPlace, change: QuotaChange) {
      const [answer] = await quotas().change([{ place, change }]);
      if (answer?.status !== "fulfilled") throw answer?.reason;
      return answer.value;
    }
    async function claim(place: QuotaPlace, facts: Partial<QuotaClaim> = {}) {
      const asked = claimOf(facts);
      const record = await change(place, (before) => claimQuota(before, asked));
      return { record, given: (record.holds[asked.owner] ?? 0) - asked.held };
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

    test("a change that changes nothing is not written, and makes no record", async () => {
      const place = newPlace();
      expect(await change(place, (record) => record)).toEqual({
        ...{ ...place, claimed: 0, granted: 0, grantIds: [], holds: {}, version: 0 },
      });
      expect(await quotas().find(place.id)).toBeUndefined();
      await claim(place);
      expect((await change(place, (record) => record)).version).toBe(1);
      expect((await quotas().find(place.id))?.version).toBe(1);
    });

    test("a change that fails leaves the record, and those beside it are made", async () => {
      const [bad, good] = [newPlace(), newPlace()];
      const answers = await quotas().change([
        { place: bad, change: (record) => ({ ...record, claimed: -1 }) },
        { place: good, change: (record) => ({ ...record, claimed: 7 }) },
      ]);
      expect(answers.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
      expect(await quotas().find(bad.id)).toBeUndefined();
      expect(await quotas().find(good.id)).toMatchObject({ claimed: 7, version: 1 });
      expect(await quotas().change([])).toEqual([]);
    });

    test("below 100 left, a block is one request", async () => {
      const place = newPlace();
      await claim(place, { wanted: 901 });
      for (let left = 99; left > 97; left--) expect((await claim(place)).given).toBe(1);
    });

    test("claims at once never take more than there is, and all of it", async () => {
      const place = newPlace();
      const given = async (owner: string) => (await claim(place, { limit: 30, wanted: 4, owner })).given;
      const all = await Promise.all(Array.from({ length: 12 }, (_, n) => given(`i${n}`)));
      expect(all.reduce((sum, n) => sum + n, 0)).toBe(30);
      expect(all.filter((n) => n === 4)).toHaveLength(7);
      expect((await quotas().find(place.id))?.claimed).toBe(30);
    });

    test("unspent requests go back once", async () => {
      const place = newPlace();
      await claim(place);
      await claim(place, { owner: "i2" });
      const all = (await quotas().find(place.id))?.claimed ?? 0;
      const back = (owner: string) => change(place, (record) => returnQuota(record, owner, 15));
      expect((await back("i3")).claimed).toBe(all);
      for (let time = 0; time < 2; time++) {
        expect(await back("i1")).toMatchObject({ claimed: all - 15, holds: { i2: expect.any(Number) } });
      }
      expect(Object.keys((await quotas().find(place.id))?.holds ?? {})).toEqual(["i2"]);
      expect(await change(newPlace(), (record) => returnQuota(record, "i1", 3))).toMatchObject({
        version: 0,
      });
    });

    test("a hold is what was held and what was given, and those of the gone are forgotten once there are many", async () => {
      const place = newPlace();
      const isLive = (owner: string) => owner === "live";
      const gone = Array.from({ length: quotaBounds.holdsMax - 2 }, (_, n) => `gone-${n}`);
      for (const owner of ["live", ...gone]) await claim(place, { owner, isLive });
      const { record } = await claim(place, { held: 4, wanted: 30, isLive });
      expect(record.holds).toMatchObject({ i1: 34, "gone-0": expect.any(Number) });
      const full = await claim(place, { owner: "last", isLive });
      expect(Object.keys(full.record.holds)).toEqual(["live", "last"]);
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

    test("old records and those of a team are removed", async () => {
      const [place, other] = [newPlace(), newPlace()];
      const day = { ...place, id: `${place.teamId}/2036-12-01`, startTimeMs: Date.UTC(2036, 11, 1) };
      const old = { ...other, id: `${other.teamId}/2020-11`, startTimeMs: Date.UTC(2020, 10) };
      for (const each of [place, other, day, old]) await claim(each);
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
