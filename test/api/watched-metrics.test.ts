import { expect, onTestFinished, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import { connectCallers } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { rawSocket } from "../harness/raw-socket.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { connectStreamCallers, readAll } from "../harness/stream-callers.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

let isStoreDown = false;

const keyrun = closedAtEnd(
  await startKeyrun({
    settings: { KEYRUN_PLAN_LIMITS: "free=5" },
    onStores: (stores) => ({
      ...stores,
      keys: {
        ...stores.keys,
        find: (keyId) => (isStoreDown ? Promise.reject(unavailable()) : stores.keys.find(keyId)),
      },
    }),
  }),
);

const metric = (series: string) => keyrun.metric(series);
const ofTeam = (team: string, outcome: string) =>
  metric(`keyrun_team_requests_total{team="${team}",outcome="${outcome}"}`);
const ofApp = (app: string, outcome: string) =>
  metric(`keyrun_app_runs_total{app="${app}",outcome="${outcome}"}`);

const callers = Object.entries({ "REST over HTTP/1.1": restCaller, ...connectCallers });

test.each(callers)("what a team's requests came to is counted for the team, by %s", async (_, make) => {
  const caller = make(keyrun.publicUrl);
  onTestFinished(() => caller.close());
  const team = await keyrun.newTeam(Plan.FREE);
  const { id: keyId, value } = await keyrun.newKey(team);
  const run = (appId: string) => caller.run({ appId, text: "x", authorization: `Bearer ${value}` });
  for (const appId of ["echo", "echo", "no-app", "echo", "echo", "echo", "echo"]) await run(appId);
  await caller.run({ appId: "echo", text: "x", authorization: `Bearer ${value}x` });
  const counts = () => Promise.all(["ok", "limited", "refused", "failed"].map((each) => ofTeam(team, each)));
  expect(await counts()).toEqual([4, 2, 1, 0]);
  await keyrun.keys.revokeKey({ teamId: team, keyId });
  await run("echo");
  expect(await counts()).toEqual([4, 2, 2, 0]);
});

test("neither a caller without a proven key nor a wrong app adds a team or an app", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam(Plan.PRO));
  const text = async () => {
    const headers = { authorization: `Bearer ${keyrun.serviceToken}` };
    return (await fetch(`${keyrun.internalUrl}/metrics`, { headers })).text();
  };
  const caller = restCaller(keyrun.publicUrl);
  onTestFinished(() => caller.close());
  await caller.run({ appId: "echo", text: "x", authorization: `Bearer ${value}` });
  const labels = async () =>
    [...(await text()).matchAll(/^keyrun_\w+\{.*?((?:team|app)="[^"]*")/gm)].map(([, label]) => label);
  const before = new Set(await labels());
  const [teamId = ""] = value.split(".");
  for (const wrong of [keyrun.unknownKey(), `${teamId}.${"x".repeat(30)}`, "", "Bearer", "x".repeat(500)]) {
    await caller.run({ appId: "invented", text: "x", authorization: `Bearer ${wrong}` });
  }
  await caller.run({ appId: "invented", text: "x", authorization: `Bearer ${value}` });
  await keyrun.keys.verifyKey({ value: keyrun.unknownKey() });
  expect(new Set(await labels())).toEqual(before);
});

test("how each app's runs end is counted for the app, with their seconds", async () => {
  const app = await startScriptedApp();
  onTestFinished(app.close);
  await keyrun.apps.createApp({ app: { id: "ends", backend: app.backend } });
  const { value } = await keyrun.newKey(await keyrun.newTeam(Plan.PRO));
  const caller = restCaller(keyrun.publicUrl);
  onTestFinished(() => caller.close());
  for (const text of ["x", "fail", "x", "fail", "fail"]) {
    await caller.run({ appId: "ends", text, authorization: `Bearer ${value}` });
  }
  expect([await ofApp("ends", "OK"), await ofApp("ends", "APP_FAILED")]).toEqual([2, 3]);
  expect(await metric('keyrun_app_run_seconds_count{app="ends"}')).toBe(5);
  expect(await metric('keyrun_app_run_seconds_sum{app="ends"}')).toBeGreaterThan(0);
});

const streamCallers = Object.entries({ ...restStreamCallers, ...connectStreamCallers });

test.each(streamCallers)(
  "a stream is open until its end, and counted by how it ended, by %s",
  async (name, make) => {
    const app = await startTalkingApp();
    const caller = make(keyrun.publicUrl);
    onTestFinished(async () => {
      caller.close();
      await app.close();
    });
    const appId = `talk-${streamCallers.findIndex(([each]) => each === name)}`;
    await keyrun.apps.createApp({ app: { id: appId, backend: app.backend } });
    const team = await keyrun.newTeam(Plan.PRO);
    const { value } = await keyrun.newKey(team);
    const begin = async (text: string) => {
      const stream = caller.open({ appId, text, authorization: `Bearer ${value}` });
      const first = stream.next();
      const talk = await app.talk(text);
      talk.say("one");
      await first;
      return { stream, talk };
    };
    const open = () => metric('keyrun_open_streams{kind="app"}');
    const timed = async () => {
      const ends = ["rest", "grpc", "connect"].map((entry) =>
        metric(`keyrun_request_seconds_count{entry="${entry}",outcome="OK"}`),
      );
      return (await Promise.all(ends)).reduce((sum, count) => sum + count, 0);
    };
    const [whole, broken, left] = [await begin("whole"), await begin("broken"), await begin("left")];
    expect(await open()).toBe(3);
    const timedBefore = await timed();
    whole.talk.end();
    await readAll(whole.stream);
    broken.talk.breakOff();
    await readAll(broken.stream);
    left.stream.leave();
    await expect.poll(open).toBe(0);
    const ends = await Promise.all(["OK", "APP_FAILED", "CANCELLED"].map((each) => ofApp(appId, each)));
    expect(ends).toEqual([1, 1, 1]);
    const outcomes = () => Promise.all(["ok", "failed", "cancelled"].map((each) => ofTeam(team, each)));
    await expect.poll(outcomes).toEqual([1, 1, 1]);
    // How long a stream takes is its app's and its caller's matter.
    expect(await timed()).toBe(timedBefore);
  },
);

test("what VerifyKey says of a key is counted for its team", async () => {
  const team = await keyrun.newTeam(Plan.FREE);
  const restricted = await keyrun.newKey(team, { appIds: ["echo"] });
  for (const appId of ["echo", "other", ""]) {
    await keyrun.keys.verifyKey({ value: restricted.value, appId, cost: 0 });
  }
  const { id: keyId, value } = await keyrun.newKey(team);
  for (let n = 0; n < 7; n++) await keyrun.keys.verifyKey({ value });
  await keyrun.keys.revokeKey({ teamId: team, keyId });
  await keyrun.keys.verifyKey({ value });
  const counts = ["valid", "limited", "revoked", "app_not_allowed"].map((verdict) =>
    metric(`keyrun_team_verifications_total{team="${team}",verdict="${verdict}"}`),
  );
  expect(await Promise.all(counts)).toEqual([6, 2, 1, 2]);
});

test("each call to the store is counted and timed; one that the store refuses with reason has not failed", async () => {
  const count = (operation: string, outcome: string) =>
    metric(`keyrun_store_call_seconds_count{operation="${operation}",outcome="${outcome}"}`);
  const team = await keyrun.newTeam(Plan.PRO);
  const { value } = await keyrun.newKey(team);
  const caller = restCaller(keyrun.publicUrl);
  onTestFinished(() => caller.close());
  const run = (key: string) => caller.run({ appId: "echo", text: "x", authorization: `Bearer ${key}` });
  await run(keyrun.unknownKey());
  const [ok, failed, inserts] = [
    await count("keys.find", "ok"),
    await count("keys.find", "failed"),
    await count("teams.insert", "failed"),
  ];
  await run(value);
  isStoreDown = true;
  await run(keyrun.unknownKey());
  isStoreDown = false;
  // At least: the check of the readiness reads keys, too.
  expect(await count("keys.find", "ok")).toBeGreaterThanOrEqual(ok + 1);
  expect(await count("keys.find", "failed")).toBeGreaterThanOrEqual(failed + 1);
  await expect(keyrun.teams.createTeam({ team: { id: team, plan: Plan.PRO } })).rejects.toThrow();
  expect(await count("teams.insert", "failed")).toBe(inserts);
});

test("connections are counted by listener while they are open", async () => {
  const open = () => metric('keyrun_connections{listener="public"}');
  const before = await open();
  const { port } = new URL(keyrun.publicUrl);
  const sockets = [1, 2, 3].map(() => rawSocket({ port: Number(port) }));
  for (const socket of sockets) socket.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await expect.poll(open).toBe(before + 3);
  for (const socket of sockets) socket.send("GET / HTTP/9\r\n\r\n");
  await Promise.all(sockets.map((socket) => socket.closed()));
  await expect.poll(open).toBe(before);
  expect(await metric('keyrun_connections{listener="internal"}')).toBeGreaterThan(0);
});

test("a watcher of keys counts as an open stream until it leaves", async () => {
  const open = () => metric('keyrun_open_streams{kind="keys"}');
  const leaving = new AbortController();
  const stream = keyrun.keys.watchKeys({ teamId: "demo" }, { signal: leaving.signal });
  const events = stream[Symbol.asyncIterator]();
  await events.next();
  expect(await open()).toBe(1);
  leaving.abort();
  await events.next().catch(() => {});
  await expect.poll(open).toBe(0);
});

test("a key is active once it was used, and one that was only created is not", async () => {
  const other = await startKeyrun();
  onTestFinished(other.close);
  const team = await other.newTeam(Plan.PRO);
  const [used] = [await other.newKey(team), await other.newKey(team)];
  expect(await other.metric("keyrun_active_keys")).toBe(0);
  await other.keys.verifyKey({ value: used.value });
  await other.keys.verifyKey({ value: used.value });
  await expect.poll(() => other.metric("keyrun_active_keys")).toBe(1);
});

test("the versions of Keyrun and of Node are told", async () => {
  const info = `keyrun_build_info{version="0.0.0-test",node="${process.versions.node}"}`;
  expect(await metric(info)).toBe(1);
});
