import { beforeEach, describe, expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import type { OpenStores } from "./opened-stores.ts";
import { openedStores } from "./opened-stores.ts";

export function windowStoreContract(name: string, open: OpenStores): void {
  describe(`WindowStore on ${name}`, () => {
    const { stores } = openedStores(open);
    beforeEach(async () => stores().window.remove(await stores().window.read()));
    const texts = async () => (await stores().window.read()).map(({ text }) => text);

    test("nothing is kept at first, and pages come back in their order, as often as they are read", async () => {
      const { window } = stores();
      expect(await window.read()).toEqual([]);
      const pages = Array.from({ length: bounds.savedPagesMax }, (_, n) => `page ${n}`);
      await window.keep(pages);
      expect(await texts()).toEqual(pages);
      expect(await texts()).toEqual(pages);
    });

    test("what was read is removed, and what is kept beside it or since stays", async () => {
      const { window } = stores();
      await window.keep(["a", "b", "c"]);
      const before = await window.read();
      await window.keep(["d"]);
      expect((await texts()).toSorted()).toEqual(["a", "b", "c", "d"]);
      await window.remove(before);
      expect(await texts()).toEqual(["d"]);
      await window.remove(before);
      // It takes the numbers of those that are gone.
      await window.keep(["e", "f", "g"]);
      await window.remove(before);
      expect((await texts()).toSorted()).toEqual(["d", "e", "f", "g"]);
      await window.remove(await window.read());
      expect(await window.read()).toEqual([]);
    });

    test("of several that keep at once each keeps all of its pages", async () => {
      const { window } = stores();
      const each = Array.from({ length: 12 }, (_, n) => [`${n} a`, `${n} b`, `${n} c`]);
      await Promise.all(each.map((pages) => window.keep(pages)));
      const kept = await texts();
      expect(kept.toSorted()).toEqual(each.flat().toSorted());
      for (const pages of each) expect(kept.filter((text) => pages.includes(text))).toEqual(pages);
      await window.keep(Array.from({ length: bounds.keptPagesMax - kept.length }, () => "full"));
      await expect(window.keep(["x"])).rejects.toMatchObject({ reason: "INTERNAL" });
    });

    test("as much as the bounds allow is kept whole, and a larger page is refused", async () => {
      const { window } = stores();
      const full = Array.from({ length: bounds.savedPagesMax }, (_, n) =>
        String.fromCharCode(65 + n).repeat(bounds.savedPageCharactersMax),
      );
      await window.keep(full);
      const taken = await window.read();
      expect(taken.length).toBe(full.length);
      expect(taken.every(({ text }, n) => text === full[n])).toBe(true);
      await expect(window.keep([`${full[0]}A`])).rejects.toMatchObject({ reason: "INTERNAL" });
    });
  });
}
