import { Agent } from "node:http";
import { durationMs, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { expect, onTestFinished, test } from "vitest";
import { BadRequestSchema, ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { type GetUsageResponse, KeyService, UsageStep } from "#gen/keyrun/v1/key_service_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type IssuedKey, startKeyrun, withAuthorization } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { signInOwner } from "../harness/members.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const clock = createManualClock({ monotonicMs: 0, unixMs: 19_700 * dayMs + 10 * hourMs });

const keyrun = closedAtEnd(await startKeyrun({ clock, settings: { KEYRUN_PLAN_LIMITS: "free=5" } }));

async function newTeamKey(): Promise<IssuedKey> {
  return keyrun.newKey(await keyrun.newTeam());
}

const run = (key: IssuedKey, appId = "echo", stream = false, text = "fail") =>
  fetch(`${keyrun.publicUrl}/api/apps/${appId}/${stream ? "stream" : "run"}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key.value}`, "content-type": "application/json" },
    body: JSON.stringify({ text }),
  }).then(async (answer) => {
    await answer.text();
    return answer.status;
  });

const totals = ({ points }: GetUsageResponse) => {
  const sum = (name: "acceptedCount" | "limitedCount" | "failedCount") =>
    Number(points.reduce((all, point) => all + point[name], 0n));
  return [sum("acceptedCount"), sum("limitedCount"), sum("failedCount")];
};

async function refusalOf(call: Promise<unknown>) {
  const error = await call.then(
    () => expect.fail("the call succeeded"),
    (thrown) => ConnectError.from(thrown),
  );
  const field = error.findDetails(BadRequestSchema)[0]?.fieldViolations[0]?.field;
  return [Code[error.code], error.findDetails(ErrorInfoSchema)[0]?.reason, field];
}

test("runs over every entry, VerifyKey with a cost and refusals by the limit count at once; VerifyKey without a cost doesn't", async () => {
  const key = await newTeamKey();
  const { teamId } = key;
  expect(await run(key)).toBe(200);
  expect(await run(key, "echo", true)).toBe(200);
  expect(await run(key, "no-such-app")).toBe(404);
  await keyrun.keys.verifyKey({ value: key.value });
  await keyrun.keys.verifyKey({ value: key.value, cost: 0 });
  expect(await run(key)).toBe(200);
  expect(await run(key)).toBe(429);
  await keyrun.keys.verifyKey({ value: key.value });
  expect(totals(await keyrun.keys.getUsage({ teamId }))).toEqual([5, 2, 0]);
  expect(totals(await keyrun.keys.getUsage({ teamId, keyId: key.id }))).toEqual([5, 2, 0]);
  expect(totals(await keyrun.keys.getUsage({ teamId, step: UsageStep.DAY }))).toEqual([5, 2, 0]);
});

test("a run that its app fails counts as failed, over run and stream, with the time that it took", async () => {
  const key = await newTeamKey();
  const { teamId } = key;
  const app = await startScriptedApp();
  onTestFinished(app.close);
  await keyrun.apps.createApp({ app: { id: "failing", backend: app.backend } });
  expect(await run(key, "failing")).toBe(502);
  await run(key, "failing", true);
  const usage = await keyrun.keys.getUsage({ teamId });
  expect(totals(usage)).toEqual([2, 0, 2]);
});

test("by default the points are those of the last 24 hours or 30 days, each there also without a request", async () => {
  const key = await newTeamKey();
  const { teamId } = key;
  const nowMs = clock.unixMs();
  const hours = (await keyrun.keys.getUsage({ teamId })).points;
  expect(hours.map(({ startTime }) => timestampMs(startTime!))).toEqual(
    Array.from({ length: 25 }, (_, n) => Math.floor(nowMs / hourMs) * hourMs - (24 - n) * hourMs),
  );
  const days = (await keyrun.keys.getUsage({ teamId, step: UsageStep.DAY })).points;
  expect(days.map(({ startTime }) => timestampMs(startTime!))).toEqual(
    Array.from({ length: 31 }, (_, n) => Math.floor(nowMs / dayMs) * dayMs - (30 - n) * dayMs),
  );
  expect(
    hours.every(({ acceptedCount, appDuration }) => acceptedCount === 0n && durationMs(appDuration!) === 0),
  ).toBe(true);
  const startTime = timestampFromMs(nowMs - 999 * hourMs);
  const most = await keyrun.keys.getUsage({ teamId, startTime, endTime: timestampFromMs(nowMs) });
  expect(most.points.length).toBe(1_000);
  const one = { startTime: timestampFromMs(nowMs), endTime: timestampFromMs(nowMs) };
  expect((await keyrun.keys.getUsage({ teamId, ...one })).points.length).toBe(1);
});

test("several keys are told each for itself, in the order asked; one without a request or of another team is absent", async () => {
  const [first, other] = [await newTeamKey(), await newTeamKey()];
  const { teamId } = first;
  const [second, unused] = [await keyrun.newKey(teamId), await keyrun.newKey(teamId)];
  for (const key of [first, second, second, other]) await run(key);
  const keyIds = [second.id, unused.id, other.id, first.id, second.id];
  for (const step of [UsageStep.HOUR, UsageStep.DAY]) {
    const { points, keys } = await keyrun.keys.getUsage({ teamId, keyIds, step });
    expect(keys.map(({ keyId }) => keyId)).toEqual([second.id, first.id]);
    expect(keys.map(({ acceptedCounts }) => [acceptedCounts.length, Number(acceptedCounts.at(-1))])).toEqual([
      [points.length, 2],
      [points.length, 1],
    ]);
    expect(Number(points.at(-1)?.acceptedCount)).toBe(3);
  }
});

test("a time may be any from 1970 to the last nanosecond of 9999", async () => {
  const { teamId } = await newTeamKey();
  const last = { seconds: 253_402_300_799n, nanos: 999_999_999 };
  const lastHour = Date.UTC(9999, 11, 31, 23);
  for (const [step, startMs] of [
    [UsageStep.HOUR, lastHour],
    [UsageStep.DAY, Date.UTC(9999, 11, 31)],
  ] as const) {
    const startTime = timestampFromMs(lastHour);
    const { points } = await keyrun.keys.getUsage({ teamId, step, startTime, endTime: last });
    expect(points.map(({ startTime }) => timestampMs(startTime!))).toEqual([startMs]);
  }
  const first = timestampFromMs(0);
  const { points } = await keyrun.keys.getUsage({ teamId, startTime: first, endTime: first });
  expect(points).toHaveLength(1);
});

test("what can't be answered is refused, and the field is named", async () => {
  const [key, other] = [await newTeamKey(), await newTeamKey()];
  const { teamId } = key;
  const at = (ms: number) => timestampFromMs(ms);
  const nowMs = clock.unixMs();
  const wrong = (request: Parameters<typeof keyrun.keys.getUsage>[0]) =>
    refusalOf(keyrun.keys.getUsage({ teamId, ...request }));
  const invalid = (field: string) => ["InvalidArgument", "INVALID_ARGUMENT", field];
  expect(await wrong({ startTime: at(nowMs + 1) })).toEqual(invalid("start_time"));
  expect(await wrong({ startTime: at(nowMs - 1_000 * hourMs) })).toEqual(invalid("start_time"));
  expect(await wrong({ startTime: at(-1) })).toEqual(invalid("start_time"));
  expect(await wrong({ endTime: at(-1) })).toEqual(invalid("end_time"));
  expect(await wrong({ step: 7 as UsageStep })).toEqual(invalid("step"));
  expect(await wrong({ keyId: key.value })).toEqual(invalid("key_id"));
  expect(await wrong({ keyIds: [key.value] })).toEqual(invalid("key_ids"));
  expect(await wrong({ keyId: key.id, keyIds: [key.id] })).toEqual(invalid("key_ids"));
  const many = (count: number) =>
    Array.from({ length: count }, (_, n) => `${key.id.slice(0, 21)}${String(n).padStart(3, "0")}`);
  expect(await wrong({ keyIds: many(101) })).toEqual(invalid("key_ids"));
  expect(await wrong({ keyIds: many(100), startTime: at(nowMs - 100 * hourMs) })).toEqual(invalid("key_ids"));
  expect(await wrong({ teamId: "" })).toEqual(invalid("team_id"));
  expect(await wrong({ keyId: other.id })).toEqual(["NotFound", "KEY_NOT_FOUND", undefined]);
  expect(await wrong({ teamId: "no-such-team" })).toEqual(["NotFound", "TEAM_NOT_FOUND", undefined]);
});

test.each(["Connect", "gRPC", "gRPC-Web"])("%s gets the same usage", async (protocol) => {
  const key = await newTeamKey();
  const { teamId } = key;
  await run(key);
  const expected = await keyrun.keys.getUsage({ teamId, keyIds: [key.id] });
  const interceptors = [withAuthorization(`Bearer ${keyrun.serviceToken}`)];
  const agent = new Agent();
  const sessionManager = new Http2SessionManager(keyrun.internalUrl);
  onTestFinished(() => {
    agent.destroy();
    sessionManager.abort();
  });
  const common = { baseUrl: keyrun.internalUrl, interceptors };
  const http1 = { ...common, httpVersion: "1.1", nodeOptions: { agent } } as const;
  const transports: Record<string, () => Transport> = {
    Connect: () => createConnectTransport({ ...http1, useBinaryFormat: false }),
    gRPC: () => createGrpcTransport({ ...common, sessionManager }),
    "gRPC-Web": () => createGrpcWebTransport(http1),
  };
  const keys = createClient(KeyService, transports[protocol]!());
  expect(await keys.getUsage({ teamId, keyIds: [key.id] })).toEqual(expected);
  expect(totals(expected)).toEqual([1, 0, 0]);
});

test("a deleted team leaves no usage to the next team of its id", async () => {
  const key = await newTeamKey();
  const { teamId } = key;
  expect(await run(key)).toBe(200);
  await keyrun.keys.revokeKey({ teamId, keyId: key.id });
  await keyrun.teams.deleteTeam({ teamId });
  await keyrun.teams.createTeam({ team: { id: teamId } });
  expect(totals(await keyrun.keys.getUsage({ teamId }))).toEqual([0, 0, 0]);
});

test.each([false, true])(
  "a run that ends after its team was deleted counts nothing in the next team of its id, streamed: %s",
  async (stream) => {
    const key = await newTeamKey();
    const { teamId } = key;
    const app = await startScriptedApp();
    onTestFinished(app.close);
    const appId = `waiting-${stream}`;
    await keyrun.apps.createApp({ app: { id: appId, backend: app.backend } });
    const running = run(key, appId, stream, "wait");
    await app.waits(1);
    await keyrun.keys.revokeKey({ teamId, keyId: key.id });
    await keyrun.teams.deleteTeam({ teamId });
    await keyrun.teams.createTeam({ team: { id: teamId } });
    const used = await keyrun.newKey(teamId);
    expect(await run(used)).toBe(200);
    // The app fails it.
    app.drop();
    await running;
    expect(await run(used)).toBe(200);
    expect(totals(await keyrun.keys.getUsage({ teamId }))).toEqual([2, 0, 0]);
  },
);

test("a clean stop writes what was counted, and the next start reads it", async () => {
  const folders = createTempFolders();
  onTestFinished(folders.remove);
  const secret = Buffer.alloc(32, 7).toString("base64url");
  const settings = { KEYRUN_DATA_DIR: folders.create(), KEYRUN_SECRET: secret };
  const first = await startKeyrun({ clock, settings });
  const { id: keyId, value } = await first.newKey("demo");
  await first.keys.verifyKey({ value });
  await first.close();
  const second = await startKeyrun({ clock, settings });
  onTestFinished(second.close);
  expect(totals(await second.keys.getUsage({ teamId: "demo", keyId }))).toEqual([1, 0, 0]);
});

test("a member reads the usage of own teams with a session, and of no other", async () => {
  const key = await keyrun.newKey("demo");
  await run(key);
  const { keys } = await signInOwner(keyrun);
  expect(totals(await keys.getUsage({ teamId: "demo", keyId: key.id }))).toEqual([1, 0, 0]);
  const { teamId } = await newTeamKey();
  expect(await refusalOf(keys.getUsage({ teamId }))).toEqual(["NotFound", "TEAM_NOT_FOUND", undefined]);
});
