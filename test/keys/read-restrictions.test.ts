import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { QuotaLimitSchema, QuotaPeriod } from "#gen/keyrun/v1/quota_pb.ts";
import { createReadRestrictions } from "#src/keys/read-restrictions.ts";
import { newAppOf, teamRecordOf } from "../harness/store-records.ts";

const apps = [
  newAppOf({ id: "echo" }),
  newAppOf({ id: "shared", teamIds: ["acme", "demo"] }),
  newAppOf({ id: "theirs", teamIds: ["acme"] }),
].map((app) => ({ ...app, version: 1 }));
const read = createReadRestrictions({
  apps: { peek: () => undefined, load: async (id) => apps.find((app) => app.id === id) },
  limitOf: () => 60,
});
const team = teamRecordOf({ id: "demo" });

test("a key is restricted to what is asked for, and to nothing where nothing is", async () => {
  expect(await read({ appIds: [] }, team)).toEqual({ appIds: [], requestsPerMinute: null, quota: null });
  expect(await read({ appIds: ["echo"] }, team)).toEqual({
    appIds: ["echo"],
    requestsPerMinute: null,
    quota: null,
  });
  expect(await read({ appIds: [], requestsPerMinute: 5 }, team)).toEqual({
    appIds: [],
    requestsPerMinute: 5,
    quota: null,
  });
});

test("a key is not restricted to another team's app, in the words for one that does not exist", async () => {
  const refusalOf = (appId: string) => read({ appIds: ["echo", appId] }, team).catch((thrown) => thrown);
  const [another, unknown] = [await refusalOf("theirs"), await refusalOf("nowhere")];
  expect(another).toMatchObject({ reason: "INVALID_ARGUMENT", param: "app_ids" });
  expect(another.message).toBe("app_ids: team `demo` has no app `theirs`.");
  expect(unknown.message).toBe("app_ids: team `demo` has no app `nowhere`.");
  expect(await read({ appIds: ["shared"] }, team)).toMatchObject({ appIds: ["shared"] });
});

test("a key has from 1 request a minute to as many as its team's plan, and at most 100 apps", async () => {
  const refusalOf = (request: Parameters<typeof read>[0]) => read(request, team).catch((thrown) => thrown);
  for (const requestsPerMinute of [0, -1, 61]) {
    expect(await refusalOf({ appIds: [], requestsPerMinute })).toMatchObject({
      param: "requests_per_minute",
    });
  }
  for (const requestsPerMinute of [1, 60]) {
    expect(await read({ appIds: [], requestsPerMinute }, team)).toMatchObject({ requestsPerMinute });
  }
  const appIds = Array.from({ length: 101 }, (_, n) => `app-${n}`);
  const tooMany = { param: "app_ids", message: "app_ids must name at most 100 apps." };
  expect(await refusalOf({ appIds })).toMatchObject(tooMany);
  expect(await read({ appIds: Array(101).fill("echo") }, team)).toMatchObject({ appIds: ["echo"] });
});

test("a key has a quota of 1 to 10^12 requests, each day or each month", async () => {
  const readQuota = (requests: bigint, period: QuotaPeriod) =>
    read({ appIds: [], quota: create(QuotaLimitSchema, { requests, period }) }, team).catch(
      (thrown) => thrown,
    );
  expect((await readQuota(1n, QuotaPeriod.DAY)).quota).toEqual({ requests: 1, period: "day" });
  const most = { requests: 1_000_000_000_000, period: "month" };
  expect((await readQuota(1_000_000_000_000n, QuotaPeriod.MONTH)).quota).toEqual(most);
  for (const requests of [0n, -1n, 1_000_000_000_001n, 2n ** 63n - 1n]) {
    const refusal = await readQuota(requests, QuotaPeriod.DAY);
    expect(refusal).toMatchObject({ reason: "INVALID_ARGUMENT", param: "quota.requests" });
  }
  for (const period of [QuotaPeriod.UNSPECIFIED, 7 as QuotaPeriod]) {
    expect(await readQuota(1n, period)).toMatchObject({ reason: "INVALID_ARGUMENT", param: "quota.period" });
  }
});
