import { expect, test } from "vitest";
import { createReadRestrictions } from "#src/keys/read-restrictions.ts";
import { newAppOf, teamRecordOf } from "../harness/store-records.ts";

const echo = { ...newAppOf({ id: "echo", streamTimeoutMs: 5 }), version: 1 };
const read = createReadRestrictions({
  apps: { peek: () => undefined, load: async (id) => (id === "echo" ? echo : undefined) },
  limitOf: () => 60,
});
const team = teamRecordOf({ id: "demo" });

test("a key without restrictions has none: it is made as ever, also while a fleet is upgraded", async () => {
  expect(await read({ appIds: [] }, team)).toBeNull();
  expect(await read({ appIds: ["echo"] }, team)).toEqual({ appIds: ["echo"], requestsPerMinute: null });
  expect(await read({ appIds: [], requestsPerMinute: 5 }, team)).toEqual({
    appIds: [],
    requestsPerMinute: 5,
  });
});
