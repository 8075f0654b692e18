import { expect, test } from "vitest";
import { warnOfOtherPrefix } from "#src/app/service-secrets.ts";
import { createLog } from "#src/log/log.ts";
import type { Stores } from "#src/store/stores.ts";
import { keyRecordOf, teamRecordOf } from "../harness/store-records.ts";

/** What the start logs for teams with these newest keys; undefined is a key that can't be read. */
async function warnings(newest: readonly (string | undefined)[], keyPrefix = "svc") {
  const lines: string[] = [];
  const log = createLog({
    level: "warn",
    secrets: [],
    destination: { write: (line) => void lines.push(line) },
  });
  const list = async ({ teamId }: { teamId: string }) => {
    const redactedValue = newest[Number(teamId)];
    if (redactedValue === undefined) throw new Error("damaged");
    return redactedValue === "" ? [] : [keyRecordOf({ id: `key-${teamId}`, teamId, redactedValue })];
  };
  const stores = {
    teams: { list: async () => newest.map((_, at) => teamRecordOf({ id: String(at) })) },
    keys: { list },
  };
  await warnOfOtherPrefix(stores as unknown as Stores, { keyPrefix, log });
  return lines.map((line) => JSON.parse(line).keyId);
}

test("warns once of the first team whose newest key has another prefix", async () => {
  expect(await warnings(["", "svc_1234…abcd", "acme_123…abcd", "acme_456…abcd"])).toEqual(["key-2"]);
  expect(await warnings(["svc_1234…abcd", ""])).toEqual([]);
  expect(await warnings([])).toEqual([]);
});

test("a prefix that fills what is shown of a key is compared as far as it is shown", async () => {
  expect(await warnings(["verylong…abcd"], "verylongone")).toEqual([]);
  expect(await warnings(["verylong…abcd"], "verylost")).toEqual(["key-0"]);
});

test("what can't be read stops no start", async () => {
  expect(await warnings([undefined, "acme_123…abcd"])).toEqual([]);
});
