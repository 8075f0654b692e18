import { timestampMs } from "@bufbuild/protobuf/wkt";
import { beforeEach, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { connectCallers } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { createGuard, guardOnce } from "./guards.ts";

const clock = createManualClock({ monotonicMs: 0, unixMs: 1_700_000_000_000 });
let isShed = false;
let isValid = true;
const keyrun = closedAtEnd(
  await startKeyrun({
    clock,
    load: { sheds: () => isShed },
    settings: { KEYRUN_PLAN_LIMITS: "free=150", KEYRUN_ACCESS_LOG: "true" },
    onStores: (stores) => ({ ...stores, guard: { ...stores.guard, isValid: () => isValid } }),
  }),
);
await createGuard(keyrun, "orders");
const rest = closedAtEnd(restCaller(keyrun.publicUrl));
const rpc = closedAtEnd(connectCallers.gRPC!(keyrun.publicUrl));

beforeEach(() => {
  isShed = false;
  isValid = true;
});

const guard = (value: string, path = "") => guardOnce(keyrun.publicUrl, { value, path });
const statusOf = async (outcome: Promise<{ readonly kind: string }>) =>
  (await outcome).kind === "ok" ? 200 : 429;

test("of runs and guarded requests together, exactly as many are accepted as the team's limit allows", async () => {
  const teamId = await keyrun.newTeam();
  const [one, other] = [await keyrun.newKey(teamId), await keyrun.newKey(teamId)];
  const ways = [
    async (value: string) => (await guard(value)).status,
    (value: string) => statusOf(rest.run({ appId: "echo", text: "x", authorization: `Bearer ${value}` })),
    (value: string) => statusOf(rpc.run({ appId: "echo", text: "x", authorization: `Bearer ${value}` })),
  ];
  const use = async (count: number) => {
    const uses = Array.from({ length: count }, (_, n) => ways[n % 3]!(n % 2 === 0 ? one.value : other.value));
    return (await Promise.all(uses)).filter((status) => status === 200).length;
  };
  expect(await use(300)).toBe(150);
  clock.advance(59_999);
  expect(await use(30)).toBe(0);
  clock.advance(1);
  expect(await use(300)).toBe(150);
});

test("a guarded request takes one of the key's own limit, too", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam(), { requestsPerMinute: 3 });
  const statuses = [];
  for (let n = 0; n < 5; n++) statuses.push((await guard(value)).status);
  expect(statuses).toEqual([200, 200, 200, 429, 429]);
});

test("guarded requests count in the usage of their key, by the limit refused ones too, and are its last use", async () => {
  const teamId = await keyrun.newTeam();
  const key = await keyrun.newKey(teamId, { requestsPerMinute: 2 });
  for (let n = 0; n < 3; n++) await guard(key.value);
  await guardOnce(keyrun.publicUrl, { value: key.value, appId: "nowhere" });
  const { points } = await keyrun.keys.getUsage({ teamId, keyId: key.id });
  const sum = (name: "acceptedCount" | "limitedCount" | "failedCount") =>
    points.reduce((all, point) => all + Number(point[name]), 0);
  expect([sum("acceptedCount"), sum("limitedCount"), sum("failedCount")]).toEqual([2, 2, 0]);
  const { keys } = await keyrun.keys.listKeys({ teamId });
  expect(timestampMs(keys[0]!.lastUseTime!)).toBe(clock.unixMs());
});

test("a key that was used before costs no read of the store", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam(Plan.PRO));
  await guard(value);
  const read = () =>
    Promise.all(
      ["key", "team", "app"].map((each) => keyrun.metric(`keyrun_store_reads_total{entity="${each}"}`)),
    );
  const before = await read();
  for (let n = 0; n < 20; n++) expect((await guard(value, `/${n}`)).status).toBe(200);
  expect(await read()).toEqual(before);
});

test("the metrics count it by entry and team, and by app what may pass", async () => {
  const teamId = await keyrun.newTeam(Plan.PRO);
  const { value } = await keyrun.newKey(teamId);
  const series = [
    'keyrun_requests_total{entry="rest",outcome="OK",status="200"}',
    'keyrun_app_guarded_requests_total{app="orders"}',
    'keyrun_app_runs_total{app="orders",outcome="OK"}',
  ];
  const read = () => Promise.all(series.map(keyrun.metric));
  await guard(value);
  const [requests, guarded] = await read();
  await guard(value);
  await guardOnce(keyrun.publicUrl, { value, appId: "echo" });
  expect(await read()).toEqual([requests! + 1, guarded! + 1, Number.NaN]);
  expect(await keyrun.metric(`keyrun_team_requests_total{team="${teamId}",outcome="ok"}`)).toBe(2);
  expect(await keyrun.metric(`keyrun_team_requests_total{team="${teamId}",outcome="refused"}`)).toBe(1);
});

test("the access log has its route, without what the caller has asked for, its app, key and team", async () => {
  const key = await keyrun.newKey(await keyrun.newTeam());
  const linesOf = (requestId: string) => keyrun.accessLines.filter((line) => line.includes(requestId));
  for (const [requestId, path, appId, facts] of [
    [
      "plain",
      "",
      "orders",
      { route: "/api/apps/{app_id}/guard", outcome: "OK", status: 200, appId: "orders" },
    ],
    [
      "below",
      "/a/secret?b=c",
      "orders",
      { route: "/api/apps/{app_id}/guard/**", outcome: "OK", appId: "orders" },
    ],
    [
      "wrong",
      "/a",
      "echo",
      { route: "/api/apps/{app_id}/guard/**", outcome: "INVALID_ARGUMENT", status: 400 },
    ],
  ] as const) {
    await guardOnce(keyrun.publicUrl, {
      value: key.value,
      path,
      appId,
      headers: { "x-request-id": requestId },
    });
    await expect.poll(() => linesOf(requestId)).toHaveLength(1);
    const [line = ""] = linesOf(requestId);
    expect(JSON.parse(line)).toMatchObject({ ...facts, method: "GET", teamId: key.teamId, keyId: key.id });
    expect(line).not.toContain("secret");
  }
});

test("an instance that lost its lease, or has too much to do, lets nothing pass: 503, or a denial that says so", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam());
  expect((await guard(value)).status).toBe(200);
  const denials = { "x-keyrun-denials": "403" };
  for (const [code, set] of [
    ["unavailable", () => (isValid = false)],
    ["overloaded", () => (isShed = true)],
  ] as const) {
    [isValid, isShed] = [true, false];
    set();
    expect((await guard(value)).status).toBe(503);
    const { status, headers } = await guardOnce(keyrun.publicUrl, { value, headers: denials });
    expect([status, headers.get("x-keyrun-status"), headers.get("x-keyrun-code")]).toEqual([
      403,
      "503",
      code,
    ]);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
  }
});
