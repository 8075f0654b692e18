import { describe, expect, test } from "vitest";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function userStoreContract(name: string, open: OpenStores): void {
  describe(`UserStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const users = () => stores().users;
    const issuer = "https://id.example";

    test("an e-mail belongs to the first subject of an issuer that binds it, and to no other until it is released", async () => {
      const email = `${newPrefix()}ada@example.com`;
      const [ada, eve] = [
        { email, issuer, subject: "ada" },
        { email, issuer, subject: "eve" },
      ];
      for (const user of [ada, ada]) expect(await users().bind(user)).toBe(true);
      for (const user of [eve, eve]) expect(await users().bind(user)).toBe(false);
      expect(await users().bind(ada)).toBe(true);
      expect(await users().find(email)).toEqual(ada);
      await users().release(email);
      await users().release(email);
      expect(await users().find(email)).toBeUndefined();
      expect(await users().bind(eve)).toBe(true);
      expect(await users().bind(ada)).toBe(false);
    });

    test("a user of a new issuer takes the e-mail over, and one subject may have several e-mails", async () => {
      const prefix = newPrefix();
      const email = `${prefix}ada@example.com`;
      await users().bind({ email, issuer, subject: "ada" });
      expect(await users().bind({ email, issuer: "https://new.example", subject: "42" })).toBe(true);
      expect(await users().bind({ email, issuer: "https://new.example", subject: "ada" })).toBe(false);
      expect(await users().bind({ email: `${prefix}b`, issuer: "https://new.example", subject: "42" })).toBe(
        true,
      );
    });

    test("one of many users who bind one e-mail at once wins, and keeps it", async () => {
      const email = `${newPrefix()}ada@example.com`;
      const subjects = ["a", "b", "c", "d", "e"];
      const bind = (subject: string) => users().bind({ email, issuer, subject });
      const first = await Promise.all(subjects.map(bind));
      expect(first.filter(Boolean)).toHaveLength(1);
      expect(await Promise.all(subjects.map(bind))).toEqual(first);
    });
  });
}
