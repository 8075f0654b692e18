import { expect, test } from "vitest";
import { createListKeys } from "#src/keys/key-service.ts";
import type { KeyRecord } from "#src/keys/key-store.ts";
import { countTurns } from "../harness/counted-turns.ts";
import { keyRecordOf, teamRecordOf } from "../harness/store-records.ts";

/** The list of one team, whose keys are these. */
function listOf(keys: readonly KeyRecord[], countActive = async () => keys.length) {
  const list = createListKeys({
    limitOf: () => 60,
    quotas: { state: () => expect.fail("no key has a quota") },
    keyring: {
      countActive,
      countRevoked: async () => 0,
      list: async ({ limit }) => keys.slice(0, limit),
      placeOf: async () => undefined,
    },
    teams: { load: async (id: string) => teamRecordOf({ id }) } as never,
    keysPerTeamMax: 10,
    keyPrefix: "svc",
  });
  const request = {
    teamId: "a",
    query: "",
    showRevoked: false,
    onlyRevoked: false,
    pageSize: 1,
    pageToken: "",
  };
  return (changed: Partial<typeof request> = {}) => list({ ...request, ...changed } as never, {} as never);
}

test("a page token is good for its own list alone: of another team, with revoked keys or of another search it is refused", async () => {
  const list = listOf(["k", "l"].map((id) => keyRecordOf({ id, teamId: "a" })));
  const { nextPageToken: pageToken = "" } = await list();
  expect(pageToken).not.toBe("");
  expect(await list({ pageToken })).toMatchObject({ keys: [{ id: "k" }] });
  for (const changed of [
    { teamId: "b" },
    { showRevoked: true },
    { onlyRevoked: true },
    { query: "laptop" },
  ]) {
    await expect(list({ ...changed, pageToken }), JSON.stringify(changed)).rejects.toMatchObject({
      reason: "INVALID_ARGUMENT",
      param: "page_token",
    });
  }
});

test("lists that are asked for at once are read in a turn of the event loop each", async () => {
  const turns = countTurns();
  const readAt: number[] = [];
  const list = listOf([keyRecordOf({ id: "k", teamId: "a" })], async () => {
    readAt.push(turns());
    return 1;
  });
  await Promise.all(Array.from({ length: 16 }, () => list()));
  expect(readAt).toHaveLength(16);
  expect(new Set(readAt).size).toBe(16);
});
