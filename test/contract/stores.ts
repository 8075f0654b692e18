import { describe, expect, test } from "vitest";
import type { Stores } from "#src/store/stores.ts";
import { keyRecordOf, newAppOf, teamRecordOf } from "../harness/store-records.ts";
import type { OpenStores } from "./opened-stores.ts";

/**
 * What all ports of a store promise together. `open` opens an empty store; `reopen` opens the same
 * one again after it was closed.
 */
export function storesContract(
  name: string,
  open: OpenStores,
  reopen: (closed: Stores) => Promise<Stores>,
): void {
  describe(`Stores on ${name}`, () => {
    test("a store is empty until the first team or app is written, and a deleted app counts as written", async () => {
      const byTeam = await open();
      expect(await byTeam.isEmpty()).toBe(true);
      await byTeam.teams.insert(teamRecordOf({ id: "demo" }));
      expect(await byTeam.isEmpty()).toBe(false);
      await byTeam.close();

      const byApp = await open();
      await byApp.apps.insert(newAppOf({ id: "echo" }));
      await byApp.apps.delete("echo");
      expect(await byApp.isEmpty()).toBe(false);
      await byApp.close();
    });

    test("written records are there after the store was closed and opened again", async () => {
      const first = await open();
      const team = teamRecordOf({ id: "demo" });
      const key = keyRecordOf({ id: "k", teamId: "demo" });
      await first.teams.insert(team);
      await first.keys.insert(key, { activeMax: 50 });
      await first.members.add({ teamId: "demo", email: "ada@example.com", createTimeMs: 1 });
      await first.preview.set("ada@example.com", true);
      const app = await first.apps.insert(newAppOf({ id: "echo" }));
      await first.close();

      const second = await reopen(first);
      expect(await second.teams.find("demo")).toEqual(team);
      expect(await second.keys.find("k")).toEqual(key);
      expect(await second.members.find("demo", "ada@example.com")).toBeDefined();
      expect(await second.preview.has("ada@example.com")).toBe(true);
      expect(await second.apps.find("echo")).toEqual(app);
      await second.close();
    });

    test("an open store answers its check and holds; a closed one does neither, and closing again is no error", async () => {
      const stores = await open();
      await stores.check();
      expect(stores.guard.isValid()).toBe(true);
      await stores.close();
      await stores.close();
      expect(stores.guard.isValid()).toBe(false);
      await expect(stores.check()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
      await expect(stores.keys.find("k")).rejects.toMatchObject({ reason: "UNAVAILABLE" });
      await expect(stores.teams.insert(teamRecordOf({ id: "a" }))).rejects.toMatchObject({
        reason: "UNAVAILABLE",
      });
    });
  });
}
