import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { searchForm } from "#src/base/fields.ts";
import type { KeyMatch } from "#src/keys/key-store.ts";
import { keyRecordOf } from "../harness/store-records.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

/** What `KeyStore` promises to a search, and of the counts that a list shows. */
export function keySearchContract(name: string, open: OpenStores): void {
  describe(`a search of KeyStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const keys = () => stores().keys;

    async function insertLabels(labels: readonly string[]): Promise<string> {
      const teamId = newPrefix();
      for (const [n, label] of labels.entries()) {
        const key = keyRecordOf({ id: `${teamId}k${n}`, teamId, label, createTimeMs: 1_000 - n });
        await keys().insert(key, { activeMax: 1_000 });
      }
      return teamId;
    }

    async function found(teamId: string, match: KeyMatch) {
      const list = await keys().list({ teamId, limit: 100, includeRevoked: true, match });
      return list.map(({ label }) => label);
    }
    const labelled = (teamId: string, part: string) => found(teamId, { labelPart: searchForm(part) });

    test.each<[query: string, labels: readonly string[], fits: readonly string[]]>([
      ["deploy", ["CI-Deploy", "deployment", "DEPLOY", "de ploy", ""], ["CI-Deploy", "deployment", "DEPLOY"]],
      ["ÄRGER", ["Ärger & Co.", "ärger", "arger"], ["Ärger & Co.", "ärger"]],
      ["Σας", ["ΣΑΣ", "σασ", "σας", "σα"], ["ΣΑΣ", "σασ", "σας"]],
      ["STRASSE", ["Strasse", "Straße"], ["Strasse"]],
      ["straße", ["STRAẞE", "Strasse"], ["STRAẞE"]],
      ["𐐨", ["x𐐀y", "𐐨", "𐐩"], ["x𐐀y", "𐐨"]],
      ["👩‍💻", ["a 👩‍💻 b", "👩", "💻"], ["a 👩‍💻 b"]],
      ["\u212a", ["key", "KEY", "hey"], ["key", "KEY"]],
      ["caf\u00e9", ["Cafe\u0301 1", "CAF\u00c9 2", "cafe"], ["Cafe\u0301 1", "CAF\u00c9 2"]],
      ["cafe\u0301", ["Cafe\u0301 1", "CAF\u00c9 2", "cafe"], ["Cafe\u0301 1", "CAF\u00c9 2"]],
      ["ｄｅｐ", ["Deploy", "ＤＥＰＬＯＹ", "デプロイ"], ["Deploy", "ＤＥＰＬＯＹ"]],
      ["ﾃﾞﾌﾟ", ["デプロイ", "テフロイ"], ["デプロイ"]],
    ])("%s fits the labels that hold it in any case, by code points", async (query, labels, fits) => {
      const teamId = await insertLabels(labels);
      expect(await labelled(teamId, query)).toEqual(fits);
    });

    test("every sign that is an operator somewhere stands for itself", async () => {
      const signs = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
      const labels = [
        ".*",
        "a.c",
        "abc",
        "^a",
        "a$",
        "(a+)+$",
        "[a-z]",
        "\\d",
        "\\",
        "100%",
        "a_c",
        "$ne",
        signs,
      ];
      const teamId = await insertLabels(labels);
      for (const query of [...labels, ...signs, "a|b", "\\Qa\\E", "(?i)a", "%", "_", "a?", "{1,}"]) {
        expect([query, await labelled(teamId, query)]).toEqual([
          query,
          labels.filter((label) => label.includes(query)),
        ]);
      }
    });

    test("any part of any label finds what a plain comparison of the folded texts finds", async () => {
      const letter = fc.constantFrom(..."aAbBßẞäÄσΣςıİiI.*+?^$()[]{}|\\-_/ 👩‍💻𐐀𐐨".split(/(?:)/u));
      const label = fc.string({ unit: letter, minLength: 1, maxLength: 6 });
      const query = fc.string({ unit: letter, minLength: 1, maxLength: 2 });
      await fc.assert(
        fc.asyncProperty(fc.array(label, { minLength: 1, maxLength: 8 }), query, async (labels, part) => {
          const teamId = await insertLabels(labels);
          const fits = labels.filter((each) => searchForm(each).includes(searchForm(part)));
          expect(await labelled(teamId, part)).toEqual(fits);
        }),
        { numRuns: 30, seed: 11 },
      );
    });

    test("an id fits by its beginning, a redacted value by any part, and one text that fits is enough", async () => {
      const teamId = newPrefix();
      const facts = [
        { id: `${teamId}ab1`, label: "one", redactedValue: "svc_ab1x…x9Qz" },
        { id: `${teamId}ab2`, label: "two", redactedValue: "svc_ab2x…x9QZ" },
        { id: `${teamId}b`, label: "ab", redactedValue: "svc_bbbb…0000" },
      ];
      for (const fact of facts) await keys().insert(keyRecordOf({ teamId, ...fact }), { activeMax: 10 });
      const sorted = async (match: KeyMatch) => (await found(teamId, match)).sort();
      expect(await sorted({ idStart: `${teamId}ab` })).toEqual(["one", "two"]);
      expect(await sorted({ idStart: `${teamId}ab2` })).toEqual(["two"]);
      expect(await sorted({ idStart: "ab" })).toEqual([]);
      expect(await sorted({ redactedPart: "…x9Qz" })).toEqual(["one"]);
      expect(await sorted({ redactedPart: ".…" })).toEqual([]);
      expect(await sorted({ labelPart: "ab", redactedPart: "svc_ab1x…" })).toEqual(["ab", "one"]);
      expect(await sorted({})).toEqual([]);
    });

    test("a search keeps to the team, to the page, and to active keys where revoked ones are not asked for", async () => {
      const teamId = await insertLabels(["x1", "y1", "x2", "x3", "y2", "x4"]);
      await insertLabels(["x of another team"]);
      const revokedBy = "a service";
      await keys().revoke({ teamId, keyId: `${teamId}k2`, revokeTimeMs: 5, revokedBy });
      const match = { labelPart: "x" };
      const active = await keys().list({ teamId, limit: 10, includeRevoked: false, match });
      expect(active.map(({ label }) => label)).toEqual(["x1", "x3", "x4"]);
      const query = { teamId, includeRevoked: true, match };
      const first = await keys().list({ ...query, limit: 2 });
      expect(first.map(({ label }) => label)).toEqual(["x1", "x2"]);
      const second = await keys().list({ ...query, limit: 2, after: first[1]! });
      expect(second.map(({ label }) => label)).toEqual(["x3", "x4"]);
    });

    test("placeOf names the n-th key of a list, and a list up to a place ends with its key", async () => {
      const teamId = newPrefix();
      const times = [5, 5, 4, 3, 3, 1];
      for (const [n, createTimeMs] of times.entries()) {
        await keys().insert(keyRecordOf({ id: `${teamId}${n}`, teamId, createTimeMs }), { activeMax: 10 });
      }
      await keys().revoke({ teamId, keyId: `${teamId}2`, revokeTimeMs: 9, revokedBy: "a service" });
      for (const includeRevoked of [true, false]) {
        const query = { teamId, includeRevoked };
        const whole = await keys().list({ ...query, limit: 10 });
        const after = whole[0]!;
        for (const [index, { id, createTimeMs }] of whole.entries()) {
          const place = { id, createTimeMs };
          expect(await keys().placeOf(index + 1, query)).toEqual(place);
          expect(await keys().list({ ...query, limit: 10, until: place })).toEqual(whole.slice(0, index + 1));
          if (index === 0) continue;
          expect(await keys().placeOf(index, { ...query, after })).toEqual(place);
          const between = await keys().list({ ...query, limit: 10, after, until: place });
          expect(between).toEqual(whole.slice(1, index + 1));
        }
        expect(await keys().placeOf(whole.length + 1, query)).toBeUndefined();
      }
    });

    test("countRevoked counts the team's revoked keys alone, and no further than it is told", async () => {
      const teamId = await insertLabels(["a", "b", "c", "d"]);
      await insertLabels(["another team's"]);
      expect(await keys().countRevoked(teamId, 10)).toBe(0);
      for (const n of [0, 1, 3]) {
        await keys().revoke({ teamId, keyId: `${teamId}k${n}`, revokeTimeMs: 5, revokedBy: "a service" });
      }
      expect(await keys().countRevoked(teamId, 10)).toBe(3);
      expect(await keys().countRevoked(teamId, 2)).toBe(2);
      expect(await keys().countActive(teamId)).toBe(1);
    });
  });
}
