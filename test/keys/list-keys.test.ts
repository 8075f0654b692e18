import { expect, test } from "vitest";
import { createListKeys } from "#src/keys/list-keys.ts";
import { countTurns } from "../harness/counted-turns.ts";
import { keyRecordOf, teamRecordOf } from "../harness/store-records.ts";

test("lists that are asked for at once are read in a turn of the event loop each", async () => {
  const turns = countTurns();
  const readAt: number[] = [];
  const list = createListKeys({
    keyring: {
      countActive: async () => {
        readAt.push(turns());
        return 1;
      },
      countRevoked: async () => 0,
      list: async () => [keyRecordOf({ id: "k", teamId: "a" })],
      placeOf: async () => undefined,
    },
    teams: { load: async () => teamRecordOf({ id: "a" }) } as never,
    keysPerTeamMax: 10,
    keyPrefix: "svc",
  });
  const request = { teamId: "a", query: "", showRevoked: false, pageSize: 10, pageToken: "" } as never;
  await Promise.all(Array.from({ length: 16 }, () => list(request, {} as never)));
  expect(readAt).toHaveLength(16);
  expect(new Set(readAt).size).toBe(16);
});
