import { describe, expect, test } from "vitest";
import type { NewApp } from "#src/apps/app-store.ts";
import { newAppOf } from "../harness/store-records.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";

export function appStoreContract(name: string, open: OpenStores): void {
  describe(`AppStore on ${name}`, () => {
    const { stores, newPrefix } = openedStores(open);
    const apps = () => stores().apps;

    test("an app that was inserted is found with every fact it was given, whatever its backend", async () => {
      const prefix = newPrefix();
      const headers = [
        { name: "authorization", value: "Bearer $x.y 'z'" },
        { name: "$where", value: "" },
      ];
      const template = {
        request: ' {"$where":"$text","n":1.0}\n',
        textAt: "/a.b/$set/~0",
        outputAt: "",
        streamTextAt: "",
        streamEvent: "$event=$token",
      };
      const all: NewApp[] = [
        newAppOf({ id: `${prefix}echo` }),
        newAppOf({ id: `${prefix}http`, backend: { kind: "http", url: "https://a.example/run", headers } }),
        newAppOf({
          id: `${prefix}template`,
          backend: { kind: "http", url: "https://a.example/run", headers, template },
        }),
        newAppOf({ id: `${prefix}grpc`, backend: { kind: "grpc", target: "127.0.0.1:9001", tls: true } }),
        newAppOf({ id: `${prefix}guard`, backend: { kind: "guard" } }),
        newAppOf({
          id: `${prefix}teams`,
          teamIds: ["b", "a"],
          timeoutMs: 1,
          streamTimeoutMs: 2,
          backgroundTimeoutMs: 3,
          displayName: "",
        }),
      ];
      for (const app of all) {
        const inserted = await apps().insert(app);
        expect(inserted).toEqual({ ...app, version: inserted?.version });
        expect(await apps().find(app.id)).toEqual(inserted);
      }
    });

    test("insert returns undefined for a taken id, and leaves the first app as it was", async () => {
      const app = newAppOf({ id: `${newPrefix()}a` });
      const first = await apps().insert(app);
      expect(await apps().insert({ ...app, displayName: "Other" })).toBeUndefined();
      expect(await apps().find(app.id)).toEqual(first);
    });

    test("exactly one of several concurrent inserts is written", async () => {
      const app = newAppOf({ id: `${newPrefix()}a` });
      const outcomes = await Promise.all(
        ["1", "2", "3", "4"].map((displayName) => apps().insert({ ...app, displayName })),
      );
      const written = outcomes.filter((outcome) => outcome !== undefined);
      expect(written).toEqual([await apps().find(app.id)]);
    });

    test("find, update and delete return undefined for an unknown app", async () => {
      const id = `${newPrefix()}a`;
      expect(await apps().find(id)).toBeUndefined();
      expect(await apps().update(id, { timeoutMs: 5 })).toBeUndefined();
      expect(await apps().delete(id)).toBeUndefined();
      expect(await apps().deletedVersion(id)).toBeUndefined();
      expect(await apps().find(id)).toBeUndefined();
    });

    test("an update changes the given fields alone and raises the version", async () => {
      const app = newAppOf({ id: `${newPrefix()}a`, teamIds: ["a"] });
      const first = await apps().insert(app);
      const renamed = await apps().update(app.id, { displayName: "New" });
      expect(renamed).toEqual({ ...first, displayName: "New", version: first!.version + 1 });
      const change = {
        backend: { kind: "grpc", target: "h:1", tls: false },
        timeoutMs: 9,
        streamTimeoutMs: 10,
        backgroundTimeoutMs: 11,
        teamIds: [],
      } as const;
      const moved = await apps().update(app.id, change);
      expect(moved).toEqual({ ...renamed, ...change, version: renamed!.version + 1 });
      expect(await apps().find(app.id)).toEqual(moved);
    });

    test("concurrent changes all take effect, one after the other", async () => {
      const app = newAppOf({ id: `${newPrefix()}a` });
      const first = await apps().insert(app);
      const times = [{ timeoutMs: 9 }, { streamTimeoutMs: 10 }, { backgroundTimeoutMs: 11 }];
      const changes = [{ displayName: "New" }, ...times, { teamIds: ["x"] }];
      await Promise.all(changes.map((change) => apps().update(app.id, change)));
      expect(await apps().find(app.id)).toEqual({
        ...first,
        displayName: "New",
        timeoutMs: 9,
        streamTimeoutMs: 10,
        backgroundTimeoutMs: 11,
        teamIds: ["x"],
        version: first!.version + 5,
      });
    });

    test("a change that names a version is made on that version alone, and one of several concurrent ones wins", async () => {
      const app = newAppOf({ id: `${newPrefix()}a` });
      const first = await apps().insert(app);
      const outcomes = await Promise.all(
        ["1", "2", "3", "4"].map((displayName) => apps().update(app.id, { displayName }, first!.version)),
      );
      const written = outcomes.filter((outcome) => outcome !== undefined);
      expect(written).toEqual([await apps().find(app.id)]);
      expect(written[0]?.version).toBe(first!.version + 1);
      expect(await apps().update(app.id, { timeoutMs: 5 }, first!.version)).toBeUndefined();
      expect(await apps().update(app.id, { timeoutMs: 5 }, first!.version + 1)).toMatchObject({
        timeoutMs: 5,
      });
      expect(await apps().update(`${app.id}b`, { timeoutMs: 5 }, 1)).toBeUndefined();
    });

    test("a deleted app is gone, can't be changed, and is deleted once", async () => {
      const prefix = newPrefix();
      const app = newAppOf({ id: `${prefix}a` });
      const first = await apps().insert(app);
      expect(await apps().deletedVersion(app.id)).toBeUndefined();
      const version = await apps().delete(app.id);
      expect(version).toBeGreaterThan(first!.version);
      expect(await apps().deletedVersion(app.id)).toBe(version);
      expect(await apps().find(app.id)).toBeUndefined();
      expect(await apps().update(app.id, { timeoutMs: 5 })).toBeUndefined();
      expect(await apps().delete(app.id)).toBeUndefined();
      expect(await apps().list({ limit: 10, after: prefix })).toEqual([]);
    });

    test("the version grows with every change, also when the app is deleted and created anew", async () => {
      const app = newAppOf({ id: `${newPrefix()}a`, teamIds: ["a"] });
      const versions: (number | undefined)[] = [];
      for (let round = 0; round < 2; round++) {
        versions.push((await apps().insert({ ...app, createTimeMs: round }))?.version);
        versions.push((await apps().update(app.id, { timeoutMs: 5 }))?.version);
        versions.push(await apps().delete(app.id));
      }
      const last = await apps().insert({ ...app, teamIds: [], createTimeMs: 7 });
      expect(last).toEqual({ ...app, teamIds: [], createTimeMs: 7, version: last?.version });
      versions.push(last?.version);
      expect(versions).not.toContain(undefined);
      expect(versions).toEqual([...new Set(versions)].sort((a, b) => a! - b!));
    });

    test("list returns apps by id, ascending by code unit, in pages that start after an id", async () => {
      const prefix = newPrefix();
      const ids = ["a", "a-", "a-b", "a0", "aa", "b"].map((id) => prefix + id);
      for (const id of [...ids].reverse()) await apps().insert(newAppOf({ id }));
      const list = async (limit: number, after: string) =>
        (await apps().list({ limit, after })).map(({ id }) => id);
      expect(await list(10, prefix)).toEqual(ids);
      expect(await list(2, prefix)).toEqual(ids.slice(0, 2));
      expect(await list(2, ids[1]!)).toEqual(ids.slice(2, 4));
      expect(await list(2, ids[5]!)).toEqual([]);
      expect(await list(0, prefix)).toEqual([]);
      expect(await apps().list({ limit: 1 })).toHaveLength(1);
    });

    test("a team may run the apps that name it or no team, and pages of them are full", async () => {
      const prefix = newPrefix();
      const teams: Record<string, string[]> = {
        a: [],
        b: ["t1"],
        c: ["t2"],
        d: ["t2", "t1"],
        e: ["t10"],
        f: [],
      };
      for (const [id, teamIds] of Object.entries(teams)) {
        await apps().insert(newAppOf({ id: prefix + id, teamIds }));
      }
      const runnable = async (limit: number, after: string, runnableBy: string) =>
        (await apps().list({ limit, after, runnableBy })).map(({ id }) => id.slice(prefix.length));
      expect(await runnable(10, prefix, "t1")).toEqual(["a", "b", "d", "f"]);
      expect(await runnable(10, prefix, "t2")).toEqual(["a", "c", "d", "f"]);
      expect(await runnable(10, prefix, "t3")).toEqual(["a", "f"]);
      expect(await runnable(3, prefix, "t1")).toEqual(["a", "b", "d"]);
      expect(await runnable(3, `${prefix}b`, "t1")).toEqual(["d", "f"]);
    });

    test("limitedTo names the apps that name the team, in order and not the deleted ones", async () => {
      const prefix = newPrefix();
      const [team, other] = [`${prefix}team`, `${prefix}team2`];
      const teamIds = { d: [team], a: [other, team], b: [], c: [other], e: [team] };
      for (const [id, ids] of Object.entries(teamIds)) {
        await apps().insert(newAppOf({ id: prefix + id, teamIds: ids }));
      }
      await apps().delete(`${prefix}e`);
      expect(await apps().limitedTo(team, 10)).toEqual([`${prefix}a`, `${prefix}d`]);
      expect(await apps().limitedTo(team, 1)).toEqual([`${prefix}a`]);
      expect(await apps().limitedTo(team, 0)).toEqual([]);
      expect(await apps().limitedTo(`${prefix}nobody`, 10)).toEqual([]);
    });
  });
}
