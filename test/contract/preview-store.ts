import { describe, expect, test } from "vitest";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function previewStoreContract(name: string, open: OpenStores): void {
  describe(`PreviewStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const preview = () => stores().preview;

    test("access is given and taken, and repeating either changes nothing", async () => {
      const email = `${newPrefix()}ada@example.com`;
      expect(await preview().has(email)).toBe(false);
      for (const granted of [true, true, false, false, true]) {
        await preview().set(email, granted);
        expect(await preview().has(email)).toBe(granted);
      }
    });

    test("concurrent grants for one user are no error and give access once", async () => {
      const prefix = newPrefix();
      await Promise.all([1, 2, 3, 4].map(() => preview().set(`${prefix}ada`, true)));
      expect(await preview().list({ limit: 10, after: prefix })).toEqual([`${prefix}ada`]);
    });

    test("list returns users with access by e-mail, ascending, in pages that start after an e-mail", async () => {
      const prefix = newPrefix();
      const emails = ["a+b@x.de", "a.b@x.de", "b@x.de", "c@x.de"].map((email) => prefix + email);
      for (const email of [...emails].reverse()) await preview().set(email, true);
      await preview().set(`${prefix}bb@x.de`, true);
      await preview().set(`${prefix}bb@x.de`, false);
      expect(await preview().list({ limit: 10, after: prefix })).toEqual(emails);
      expect(await preview().list({ limit: 2, after: prefix })).toEqual(emails.slice(0, 2));
      expect(await preview().list({ limit: 2, after: emails[1]! })).toEqual(emails.slice(2));
      expect(await preview().list({ limit: 0, after: prefix })).toEqual([]);
      expect(await preview().list({ limit: 1 })).toHaveLength(1);
    });
  });
}
