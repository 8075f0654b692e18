import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually, madeOnce, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { type BackgroundCaller, backgroundCallers } from "./background-callers.ts";

describeFleet("here")("runs in the background over a fleet", () => {
  let fleet: FleetHere;
  let app: Awaited<ReturnType<typeof startScriptedApp>>;
  let one: BackgroundCaller;
  let other: BackgroundCaller;
  let value = "";
  beforeAll(async () => {
    app = await startScriptedApp();
    fleet = await startFleet({ in: "here", settings: { KEYRUN_PLAN_LIMITS: "free=100000" } });
    const [first] = fleet.members;
    await madeOnce(() => first.apps.createApp({ app: { id: "counted", backend: app.backend } }));
    ({ value } = await first.newKey(await first.newTeam()));
    const over = (url: string) => patient(backgroundCallers["REST over HTTP/1.1"]!(url, value));
    [one, other] = [over(fleet.members[0].publicUrl), over(fleet.members[1].publicUrl)];
  });
  afterAll(async () => {
    await fleet.close();
    await app.close();
  });

  /** Asks again where an instance can't answer now: each run here has an Idempotency-Key. */
  function patient(caller: BackgroundCaller): BackgroundCaller {
    const isNone = ({ reason }: { reason?: string }) => reason === "UNAVAILABLE";
    const asked = <Args extends unknown[]>(
      ask: (...args: Args) => ReturnType<BackgroundCaller["get"]>,
    ): typeof ask => {
      return (...args) => eventually(() => ask(...args), whileAnswer(isNone));
    };
    return {
      ...{ list: caller.list, run: asked(caller.run), start: asked(caller.start) },
      ...{ get: asked(caller.get), cancel: asked(caller.cancel) },
    };
  }

  async function started(word: string) {
    const order = { text: `${word} ${randomUUID()}`, key: randomUUID() };
    const { run } = await one.start(order);
    await app.started(order.text);
    return { ...order, runId: run!.runId! };
  }

  test("a run of one instance is read, and waited for, at another", async () => {
    const { text, key, runId } = await started("wait");
    expect((await other.get(runId)).run).toMatchObject({ state: "RUN_STATE_RUNNING" });
    expect((await other.start({ text, key })).run).toMatchObject({ runId, state: "RUN_STATE_RUNNING" });
    const waiting = other.get(runId, 50_000);
    app.release(text);
    expect((await waiting).run).toMatchObject({ state: "RUN_STATE_SUCCEEDED", text: "released" });
    expect((await other.run({ text, key })).run).toMatchObject({ runId, text: "released" });
    expect(app.starts(text)).toBe(1);
  });

  test("the JSON of a run of one instance is read at another, and is its answer to the same key", async () => {
    const order = { appId: "echo", input: { a: [1, { b: null }] }, key: randomUUID() };
    const runId = (await one.start(order)).run!.runId!;
    expect((await other.get(runId, 50_000)).run).toMatchObject({ output: order.input });
    expect((await other.run(order)).run).toMatchObject({ runId, output: order.input });
  });

  test("a run that is cancelled at another instance is closed where it runs, and stays cancelled", async () => {
    const { text, key, runId } = await started("wait");
    const waiting = one.get(runId, 50_000);
    const { run } = await other.cancel(runId);
    expect(run?.state).toBe("RUN_STATE_CANCELLED");
    await expect.poll(() => app.isWaiting(text)).toBe(false);
    expect((await waiting).run).toEqual(run);
    expect((await one.get(runId)).run).toEqual(run);
    expect((await other.run({ text, key })).reason).toBe("RUN_CANCELLED");
  });

  test("an app that another instance deletes ends its runs everywhere", async () => {
    const [first, second] = fleet.members;
    const { backend } = app;
    await madeOnce(() => first.apps.createApp({ app: { id: "deleted", backend } }));
    const text = `wait ${randomUUID()}`;
    const { run } = await one.start({ text, appId: "deleted", key: randomUUID() });
    await app.started(text);
    await second.apps.deleteApp({ appId: "deleted" });
    await expect.poll(() => app.isWaiting(text)).toBe(false);
    expect((await one.get(run!.runId!)).run?.state).toBe("RUN_STATE_CANCELLED");
  });

  test("the runs of an instance that stops were interrupted, which another one tells", async () => {
    const third = await fleet.start({ settings: { KEYRUN_DRAIN_MS_MAX: "100" } });
    const text = `wait ${randomUUID()}`;
    const caller = patient(backgroundCallers["REST over HTTP/1.1"]!(third.publicUrl, value));
    const { run } = await caller.start({ text, key: randomUUID() });
    await app.started(text);
    await third.close();
    expect((await one.get(run!.runId!)).run).toMatchObject({ error: { code: "run_interrupted" } });
    expect(app.starts(text)).toBe(1);
  });
});
