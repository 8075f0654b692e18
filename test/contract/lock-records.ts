import { describe, expect, test } from "vitest";
import type { LockRecords } from "#src/store/mongo/lock.ts";

/** `open` opens a store without a record. */
export function lockRecordsContract(name: string, open: () => Promise<LockRecords>): void {
  describe(`LockRecords on ${name}`, () => {
    test("there is no record until one is created, and one of several concurrent creations wins", async () => {
      const records = await open();
      expect(await records.find()).toBeUndefined();
      const names = ["a", "b", "c", "d"];
      const won = await Promise.all(names.map((incarnation) => records.create(incarnation)));
      expect(won.filter(Boolean)).toHaveLength(1);
      expect(await records.find()).toEqual({ incarnation: names[won.indexOf(true)], beat: 1 });
    });

    test("renew raises the beat by one, and returns false for another incarnation or no record", async () => {
      const records = await open();
      expect(await records.renew("a")).toBe(false);
      await records.create("a");
      expect(await records.renew("a")).toBe(true);
      expect(await records.renew("a")).toBe(true);
      expect(await records.renew("b")).toBe(false);
      expect(await records.find()).toEqual({ incarnation: "a", beat: 3 });
    });

    test("replace needs exactly the record that was seen, and one successor alone wins", async () => {
      const records = await open();
      await records.create("a");
      const seen = { incarnation: "a", beat: 1 };
      await records.renew("a");
      expect(await records.replace(seen, "b")).toBe(false);
      expect(await records.replace({ incarnation: "c", beat: 2 }, "b")).toBe(false);
      const now = { incarnation: "a", beat: 2 };
      const won = await Promise.all(["b", "c", "d"].map((name) => records.replace(now, name)));
      expect(won.filter(Boolean)).toHaveLength(1);
      expect(await records.find()).toEqual({ incarnation: ["b", "c", "d"][won.indexOf(true)], beat: 1 });
      expect(await records.renew("a")).toBe(false);
    });

    test("only its own incarnation removes a record", async () => {
      const records = await open();
      await records.create("a");
      await records.remove("b");
      expect(await records.find()).toEqual({ incarnation: "a", beat: 1 });
      await records.remove("a");
      await records.remove("a");
      expect(await records.find()).toBeUndefined();
      expect(await records.create("b")).toBe(true);
    });
  });
}
