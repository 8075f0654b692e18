import { describe, expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import type { OpenStores } from "./opened-stores.ts";
import { openedStores } from "./opened-stores.ts";

export function windowStoreContract(name: string, open: OpenStores): void {
  describe(`WindowStore on ${name}`, () => {
    const { stores } = openedStores(open);

    test("nothing is kept at first, and pages come back in their order, once", async () => {
      const { window } = stores();
      expect(await window.take()).toEqual([]);
      const pages = Array.from({ length: bounds.savedPagesMax }, (_, n) => `page ${n}`);
      await window.keep(pages);
      expect(await window.take()).toEqual(pages);
      expect(await window.take()).toEqual([]);
    });

    test("to keep again replaces every page of before", async () => {
      const { window } = stores();
      await window.keep(["a", "b", "c"]);
      await window.keep(["d"]);
      expect(await window.take()).toEqual(["d"]);
      await window.keep(["e"]);
      await window.keep([]);
      expect(await window.take()).toEqual([]);
    });

    test("as much as the bounds allow is kept whole, and more is refused", async () => {
      const { window } = stores();
      const full = Array.from({ length: bounds.savedPagesMax }, (_, n) =>
        String.fromCharCode(65 + n).repeat(bounds.savedPageCharactersMax),
      );
      await window.keep(full);
      const taken = await window.take();
      expect(taken.length).toBe(full.length);
      expect(taken.every((page, n) => page === full[n])).toBe(true);
      await expect(window.keep([...full, "x"])).rejects.toMatchObject({ reason: "INTERNAL" });
      await expect(window.keep([`${full[0]}A`])).rejects.toMatchObject({ reason: "INTERNAL" });
    });
  });
}
