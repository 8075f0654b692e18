import { describe, expect, test } from "vitest";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function memberStoreContract(name: string, open: OpenStores): void {
  describe(`MemberStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const members = () => stores().members;
    const member = (teamId: string, email: string, createTimeMs = 1_000) => ({ teamId, email, createTimeMs });

    test("a member who was added belongs to the team, and to no other", async () => {
      const [a, b] = [newPrefix(), newPrefix()];
      expect(await members().add(member(a, "ada@example.com"))).toEqual(member(a, "ada@example.com"));
      expect(await members().find(a, "ada@example.com")).toMatchObject({
        teamId: a,
        email: "ada@example.com",
      });
      expect(await members().find(b, "ada@example.com")).toBeUndefined();
      expect(await members().find(a, "ada@example.co")).toBeUndefined();
    });

    test("a member who was there before keeps the first time, however many calls add the member at once", async () => {
      const teamId = newPrefix();
      const first = await members().add(member(teamId, "ada@example.com", 1_000));
      const answers = await Promise.all(
        [2_000, 3_000, 4_000].map((timeMs) => members().add(member(teamId, "ada@example.com", timeMs))),
      );
      expect(answers).toEqual([first, first, first]);
      expect(await members().list({ teamId, limit: 10 })).toEqual([first]);
    });

    test("remove returns true once, then false, and the member may come back with a new time", async () => {
      const teamId = newPrefix();
      await members().add(member(teamId, "ada@example.com"));
      expect(await members().remove(teamId, "ada@example.com")).toBe(true);
      expect(await members().remove(teamId, "ada@example.com")).toBe(false);
      expect(await members().find(teamId, "ada@example.com")).toBeUndefined();
      const back = member(teamId, "ada@example.com", 9_000);
      expect(await members().add(back)).toEqual(back);
    });

    test("list returns members by e-mail, ascending, in pages that start after an e-mail", async () => {
      const teamId = newPrefix();
      const emails = ["a+b@x.de", "a.b@x.de", "ab@x.de", "b@x.de", "ß@x.de", "я@x.de"];
      for (const email of [...emails].reverse()) await members().add(member(teamId, email));
      await members().add(member(newPrefix(), "aa@x.de"));
      const list = async (limit: number, after?: string) =>
        (await members().list({ teamId, limit, ...(after && { after }) })).map(({ email }) => email);
      expect(await list(10)).toEqual(emails);
      expect(await list(2)).toEqual(emails.slice(0, 2));
      expect(await list(3, emails[1])).toEqual(emails.slice(2, 5));
      expect(await list(3, emails[5])).toEqual([]);
      expect(await list(0)).toEqual([]);
    });

    test("teamIdsOf returns a person's teams by id, ascending, and at most `limit`", async () => {
      const prefix = newPrefix();
      const email = `${prefix}@example.com`;
      const teamIds = ["a", "a-", "b", "c"].map((id) => prefix + id);
      for (const teamId of [...teamIds].reverse()) await members().add(member(teamId, email));
      await members().add(member(`${prefix}d`, `x${email}`));
      expect(await members().teamIdsOf(email, 10)).toEqual(teamIds);
      expect(await members().teamIdsOf(email, 2)).toEqual(teamIds.slice(0, 2));
      expect(await members().teamIdsOf(email, 0)).toEqual([]);
      expect(await members().teamIdsOf("nobody@example.com", 10)).toEqual([]);
    });

    test("removeAll removes the team's members alone, as many as it may, and counts them", async () => {
      const [teamId, other] = [newPrefix(), newPrefix()];
      for (const email of ["a@x", "b@x", "c@x"]) {
        for (const each of [teamId, other]) await members().add({ teamId: each, email, createTimeMs: 1 });
      }
      expect(await members().removeAll(teamId, 0)).toBe(0);
      expect(await members().removeAll(teamId, 2)).toBe(2);
      expect(await members().list({ teamId, limit: 10 })).toHaveLength(1);
      expect(await members().removeAll(teamId, 2)).toBe(1);
      expect(await members().removeAll(teamId, 2)).toBe(0);
      expect(await members().list({ teamId: other, limit: 10 })).toHaveLength(3);
    });
  });
}
