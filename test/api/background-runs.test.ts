import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { bounds } from "#src/bounds.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import type { Stores } from "#src/store/stores.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { storeOfTier } from "../harness/mongo-databases.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { type BackgroundCaller, backgroundCallers } from "./background-callers.ts";

const rest = backgroundCallers["REST over HTTP/1.1"]!;
const fresh = (word: string) => `${word} ${randomUUID()}`;
const unknownId = "run_3kd09vbn2m8t5xq7w1zs6hcf";

describe.each(storeOfTier())("with %s", (_, settings) => {
  let app: Awaited<ReturnType<typeof startScriptedApp>>;
  let keyrun: Keyrun;
  /** The insert of a record fails, or its answer is lost. */
  let insert: "works" | "fails" | "is lost" = "works";
  const failing = (stores: Stores): Stores => ({
    ...stores,
    runs: {
      ...stores.runs,
      async write(changes) {
        const fails = insert !== "works" && changes.some(({ kind }) => kind === "insert");
        const found = fails && insert === "fails" ? [] : await stores.runs.write(changes);
        if (fails) throw new Error("the store has no answer");
        return found;
      },
    },
  });
  beforeAll(async () => {
    app = await startScriptedApp();
    keyrun = await startKeyrun({
      settings: { ...settings(), KEYRUN_APP_BACKGROUND_RUNS_MAX: "80", KEYRUN_APP_RUNS_MAX: "1" },
      onStores: failing,
    });
    const { backend } = app;
    for (const id of ["counted", "other"]) await keyrun.apps.createApp({ app: { id, backend } });
    const backgroundTimeout = { seconds: 0n, nanos: 200_000_000 };
    await keyrun.apps.createApp({ app: { id: "hasty", backend, backgroundTimeout } });
  });
  afterAll(async () => {
    await keyrun.close();
    await app.close();
  });
  beforeEach(() => {
    insert = "works";
  });

  const newKey = async (restrictions = {}, teamId?: string) =>
    keyrun.newKey(teamId ?? (await keyrun.newTeam(Plan.ENTERPRISE)), restrictions);

  describe.each(Object.entries(backgroundCallers))("a run in the background over %s", (name, make) => {
    const isRest = name.startsWith("REST");
    let caller: BackgroundCaller;
    let teamId = "";
    beforeAll(async () => {
      const key = await newKey();
      ({ teamId } = key);
      caller = make(keyrun.publicUrl, key.value);
    });
    const started = async (text: string, more: { appId?: string; key?: string } = {}) => {
      const { run } = await caller.start({ text, ...more });
      await app.started(text);
      return run!.runId!;
    };

    test("is answered before its app answers, and its end can be read and waited for", async () => {
      const text = fresh("wait");
      const { run, headers } = await caller.start({ text });
      expect(run).toMatchObject({ state: "RUN_STATE_RUNNING", appId: "counted" });
      expect(run).not.toHaveProperty("text");
      const runId = run!.runId!;
      if (isRest) {
        const names = ["location", "retry-after", "preference-applied", "vary", "cache-control"];
        expect(names.map((each) => headers.get(each))).toEqual([
          ...[
            `/api/runs/${runId}`,
            String(bounds.retryAfterAcceptedS),
            "respond-async",
            "Prefer",
            "no-store",
          ],
        ]);
      }
      await app.started(text);
      expect((await caller.get(runId)).run).toEqual(run);
      const ended = caller.get(runId, 50_000);
      app.release(text);
      expect((await ended).run).toMatchObject({
        ...{ runId, state: "RUN_STATE_SUCCEEDED", text: "released", keyId: run!.keyId },
        ...{ endTime: expect.any(String), expireTime: expect.any(String) },
      });
      expect((await caller.get(runId)).run).toEqual((await ended).run);
      expect(app.starts(text)).toBe(1);
    });

    test("that fails later is told in the log with its cause, and one that is cancelled is not", async () => {
      const lines = () =>
        keyrun.logLines
          .map((line) => JSON.parse(line))
          .filter(({ msg }) => msg === "a run in the background failed");
      const cancelled = await started(fresh("wait"));
      await caller.cancel(cancelled);
      const { run } = await caller.start({ text: fresh("fail") });
      const runId = run!.runId!;
      await expect
        .poll(() => lines().filter((line) => line.runId === runId))
        .toMatchObject([
          {
            level: "warn",
            reason: "APP_FAILED",
            requestId: expect.any(String),
            teamId,
            appId: "counted",
            cause: expect.stringContaining("answered 500"),
          },
        ]);
      expect(lines().filter((line) => line.runId === cancelled)).toEqual([]);
    });

    test("that ends while its caller waits is answered with its end, also if it failed", async () => {
      const text = fresh("hello");
      const done = await caller.start({ text, waitMs: 50_000 });
      expect(done.run).toMatchObject({ state: "RUN_STATE_SUCCEEDED", text: text.toUpperCase() });
      const failed = await caller.start({ text: fresh("fail"), waitMs: 50_000 });
      if (isRest) {
        expect(failed.reason).toBe("APP_FAILED");
        for (const { headers } of [done, failed]) {
          expect(headers.get("preference-applied")).toBe("respond-async, wait=50");
        }
      } else expect(failed.run).toMatchObject({ state: "RUN_STATE_FAILED", error: { code: "app_failed" } });
    });

    test("that does not end by then goes on", async () => {
      const text = fresh("wait");
      const { run } = await caller.start({ text, waitMs: isRest ? 1_000 : 10 });
      expect(run?.state).toBe("RUN_STATE_RUNNING");
      expect((await caller.get(run!.runId!, 10)).run).toEqual(run);
      app.release(text);
      await expect.poll(async () => (await caller.get(run!.runId!)).run?.text).toBe("released");
    });

    test("has failed as its caller would have been told", async () => {
      const ends = async (order: { text: string; appId?: string }) => {
        const { run } = await caller.start(order);
        return (await caller.get(run!.runId!, 50_000)).run;
      };
      expect(await ends({ text: fresh("fail") })).toMatchObject({
        state: "RUN_STATE_FAILED",
        error: { code: "app_failed", status: 502, message: expect.any(String) },
      });
      expect(await ends({ text: fresh("hang"), appId: "hasty" })).toMatchObject({
        error: { code: "app_timeout", status: 504 },
      });
      expect(await ends({ text: fresh("refuse") })).toMatchObject({
        error: { code: "app_refused", status: 422 },
      });
    });

    test("is cancelled for good: the app's call is closed, and a repeat answers the same", async () => {
      const text = fresh("wait");
      const runId = await started(text);
      const waiting = caller.get(runId, 50_000);
      const { run } = await caller.cancel(runId);
      expect(run).toMatchObject({
        state: "RUN_STATE_CANCELLED",
        error: { code: "run_cancelled", status: 409 },
      });
      expect((await waiting).run).toEqual(run);
      await expect.poll(() => app.isWaiting(text)).toBe(false);
      expect((await caller.cancel(runId)).run).toEqual(run);
      expect((await caller.get(runId)).run).toEqual(run);
    });

    test("that has ended is not cancelled any more", async () => {
      const { run } = await caller.start({ text: fresh("hello") });
      const ended = await caller.get(run!.runId!, 50_000);
      expect((await caller.cancel(run!.runId!)).run).toEqual(ended.run);
    });

    test("is in the list of its team, newest first, without texts, page by page", async () => {
      const own = make(keyrun.publicUrl, (await newKey()).value);
      const ids: string[] = [];
      for (let n = 0; n < 3; n++) {
        const { run } = await own.start({ text: fresh("hello"), waitMs: 50_000 });
        ids.unshift(run!.runId!);
      }
      const first = await own.list({ pageSize: 2 });
      const second = await own.list({ pageSize: 2, pageToken: first.nextPageToken });
      expect([...first.runs, ...second.runs].map(({ runId }) => runId)).toEqual(ids);
      expect([first.runs.length, second.nextPageToken]).toEqual([2, ""]);
      for (const run of first.runs) expect(run).not.toHaveProperty("text");
    });

    test("is one for its Idempotency-Key, with the preference and without, in every order", async () => {
      const [text, key] = [fresh("wait"), randomUUID()];
      const runId = await started(text, { key });
      const again = await caller.start({ text, key });
      expect([again.run?.runId, again.run?.state]).toEqual([runId, "RUN_STATE_RUNNING"]);
      expect(again.headers.get("idempotency-replayed")).toBe("true");
      expect((await caller.start({ text: fresh("hello"), key })).reason).toBe("IDEMPOTENCY_KEY_REUSED");
      const waited = caller.run({ text, key });
      app.release(text);
      expect((await waited).run).toMatchObject({ runId, text: "released" });
      for (const answer of [await caller.start({ text, key }), await caller.run({ text, key })]) {
        expect(answer.run).toMatchObject({ runId, text: "released" });
        expect(answer.headers.get("idempotency-replayed")).toBe("true");
      }
      expect(app.starts(text)).toBe(1);

      const [waitedFor, other] = [fresh("hello"), randomUUID()];
      const first = await caller.run({ text: waitedFor, key: other });
      const repeat = await caller.start({ text: waitedFor, key: other });
      expect(repeat.run).toMatchObject({ runId: first.run!.runId!, text: waitedFor.toUpperCase() });
      expect(app.starts(waitedFor)).toBe(1);
    });

    test("that was cancelled has failed for its Idempotency-Key", async () => {
      const [text, key] = [fresh("wait"), randomUUID()];
      await caller.cancel(await started(text, { key }));
      const { reason, headers } = await caller.run({ text, key });
      expect([reason, headers.get("idempotency-replayed")]).toEqual(["RUN_CANCELLED", "true"]);
      // Over REST a run that has ended by then is answered as one that was waited for.
      const again = await caller.start({ text, key });
      expect(again.reason ?? again.run?.error?.code?.toUpperCase()).toBe("RUN_CANCELLED");
      expect(again.headers.get("idempotency-replayed")).toBe("true");
      expect(app.starts(text)).toBe(1);
    });

    test("of which the app says that it did nothing frees its Idempotency-Key", async () => {
      const [text, key] = [fresh("busy"), randomUUID()];
      const first = await caller.start({ text, key });
      expect((await caller.get(first.run!.runId!, 50_000)).run).toMatchObject({
        error: { code: "app_busy" },
      });
      const second = await caller.start({ text, key });
      expect(second.run?.runId).not.toBe(first.run!.runId!);
      await caller.get(second.run!.runId!, 50_000);
      expect(app.starts(text)).toBe(2);
    });

    test("is unknown in the same words, whoever else may know it", async () => {
      const runId = await started(fresh("wait"), { appId: "other" });
      const stranger = make(keyrun.publicUrl, (await newKey()).value);
      const restricted = make(keyrun.publicUrl, (await newKey({ appIds: ["counted"] }, teamId)).value);
      for (const [who, id] of [
        [caller, unknownId],
        [caller, "run_1"],
        [caller, "nothing-like-it"],
        [stranger, runId],
        [restricted, runId],
      ] as const) {
        for (const ask of [who.get, who.cancel]) expect((await ask(id)).reason).toBe("RUN_NOT_FOUND");
      }
      expect((await restricted.list()).runs.filter(({ appId }) => appId !== "counted")).toEqual([]);
      expect((await caller.list()).runs.map((run) => run.runId)).toContain(runId);
      expect((await caller.cancel(runId)).run?.state).toBe("RUN_STATE_CANCELLED");
    });

    test("goes on when its key is revoked, but nobody waits for it with that key any more", async () => {
      const key = await newKey({}, teamId);
      const leaving = make(keyrun.publicUrl, key.value);
      const text = fresh("wait");
      const { run } = await leaving.start({ text });
      await app.started(text);
      const waiting = leaving.get(run!.runId!, 50_000);
      await keyrun.keys.revokeKey({ teamId, keyId: key.id });
      expect((await waiting).reason).toBe("REVOKED_API_KEY");
      app.release(text);
      expect((await caller.get(run!.runId!, 50_000)).run).toMatchObject({ text: "released" });
    });

    test("takes one of the limit, as each request about it does", async () => {
      const own = make(keyrun.publicUrl, (await newKey()).value);
      const { run, headers } = await own.start({ text: fresh("hello"), waitMs: 50_000 });
      const left = [headers, (await own.get(run!.runId!)).headers, (await own.cancel(run!.runId!)).headers];
      const remaining = left.map((each) => Number(each.get("ratelimit-remaining")));
      expect(remaining).toEqual([0, 1, 2].map((n) => remaining[0]! - n));
    });

    test("whose record can't be written is refused, and its app gets nothing", async () => {
      const own = make(keyrun.publicUrl, (await newKey()).value);
      const [text, key] = [fresh("hello"), randomUUID()];
      for (const how of ["fails", "is lost"] as const) {
        insert = how;
        expect((await own.start({ text, key })).reason).toBe("UNAVAILABLE");
        insert = "works";
        await expect.poll(async () => (await own.list()).runs).toEqual([]);
      }
      expect(app.starts(text)).toBe(0);
      expect((await own.start({ text, key, waitMs: 50_000 })).run).toMatchObject({
        text: text.toUpperCase(),
      });
    });
  });

  test("without runs to keep, the preference is ignored, and StartRun is refused", async () => {
    const own = await startKeyrun({ settings: { KEYRUN_IDEMPOTENCY_HOURS: "0" } });
    onTestFinished(own.close);
    const { value } = await own.newKey(await own.newTeam());
    const order = { appId: "echo", text: "hello" };
    const ignored = await rest(own.publicUrl, value).start(order);
    expect(ignored.run).toMatchObject({ text: "hello" });
    expect(ignored.headers.get("preference-applied")).toBe(null);
    const refused = await backgroundCallers.gRPC!(own.publicUrl, value).start(order);
    expect(refused.reason).toBe("BACKGROUND_RUNS_OFF");
  });

  test("HEAD is GET without the body, and other methods are named", async () => {
    const { value } = await newKey();
    const { run } = await rest(keyrun.publicUrl, value).start({ text: fresh("hello"), waitMs: 50_000 });
    const url = `${keyrun.publicUrl}/api/runs/${run!.runId}`;
    const headers = { authorization: `Bearer ${value}` };
    const [head, get] = [await fetch(url, { method: "HEAD", headers }), await fetch(url, { headers })];
    expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([
      ...[200, get.headers.get("content-length"), ""],
    ]);
    const refused = await fetch(url, { method: "DELETE", headers });
    expect([refused.status, refused.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  test("what a waiting request asks in the header Prefer is as in the query", async () => {
    const { value } = await newKey();
    const text = fresh("wait");
    const { run } = await rest(keyrun.publicUrl, value).start({ text });
    await app.started(text);
    const headers = { authorization: `Bearer ${value}`, prefer: "wait=50" };
    const waiting = fetch(`${keyrun.publicUrl}/api/runs/${run!.runId}`, { headers });
    app.release(text);
    expect(await (await waiting).json()).toMatchObject({ state: "RUN_STATE_SUCCEEDED" });
    const negative = await rest(keyrun.publicUrl, value).get(run!.runId!, -1_000);
    expect(negative.reason).toBe("INVALID_ARGUMENT");
  });

  test("64 requests of a team wait on an instance, and the next one is answered at once", async () => {
    const caller = rest(keyrun.publicUrl, (await newKey()).value);
    const text = fresh("wait");
    const { run } = await caller.start({ text });
    await app.started(text);
    const states: unknown[] = [];
    const wait = async () => void states.push((await caller.get(run!.runId!, 50_000)).run?.state);
    const waits = Array.from({ length: runBounds.runWaitsOfTeamMax + 1 }, wait);
    await expect.poll(() => states).toEqual(["RUN_STATE_RUNNING"]);
    app.release(text);
    await Promise.all(waits);
    expect(states.slice(1)).toEqual(Array(runBounds.runWaitsOfTeamMax).fill("RUN_STATE_SUCCEEDED"));
  });

  test("runs in the background have slots of their own, and past them nothing is kept", async () => {
    const own = await startKeyrun({ settings: { ...settings(), KEYRUN_APP_BACKGROUND_RUNS_MAX: "1" } });
    onTestFinished(own.close);
    await own.apps.createApp({ app: { id: "counted", backend: app.backend } });
    const caller = rest(own.publicUrl, (await own.newKey(await own.newTeam())).value);
    const [text, key] = [fresh("wait"), randomUUID()];
    await caller.start({ text });
    await app.started(text);
    const next = fresh("hello");
    expect((await caller.start({ text: next, key })).reason).toBe("APP_BUSY");
    expect((await caller.run({ text: fresh("hello") })).run?.state).toBe("RUN_STATE_SUCCEEDED");
    expect((await caller.list()).runs.length).toBe(1);
    app.release(text);
    const start = async () => (await caller.start({ text: next, key, waitMs: 50_000 })).run?.text;
    await expect.poll(start).toBe(next.toUpperCase());
    expect(app.starts(next)).toBe(1);
  });

  test("a deleted app, a right that is lost and a deleted team cancel what runs", async () => {
    const { backend } = app;
    const team = await keyrun.newTeam();
    const key = await newKey({}, team);
    const caller = rest(keyrun.publicUrl, key.value);
    const stays = rest(keyrun.publicUrl, (await newKey()).value);
    for (const id of ["leaving", "deleted"]) await keyrun.apps.createApp({ app: { id, backend } });
    const startedAt = async (appId: string, by = caller) => {
      const text = fresh("wait");
      const { run } = await by.start({ text, appId });
      await app.started(text);
      return { runId: run!.runId!, text };
    };
    const lost = await startedAt("leaving");
    const [otherTeam] = [await keyrun.newTeam()];
    await keyrun.apps.updateApp({
      app: { id: "leaving", teamIds: [otherTeam] },
      updateMask: { paths: ["team_ids"] },
    });
    await expect.poll(() => app.isWaiting(lost.text)).toBe(false);
    expect((await caller.get(lost.runId)).reason).toBe("RUN_NOT_FOUND");

    const gone = await startedAt("deleted");
    await keyrun.apps.deleteApp({ appId: "deleted" });
    await expect.poll(() => app.isWaiting(gone.text)).toBe(false);
    expect((await caller.get(gone.runId)).run?.state).toBe("RUN_STATE_CANCELLED");

    const [ofTeam, ofOther] = [await startedAt("counted"), await startedAt("counted", stays)];
    await keyrun.keys.revokeKey({ teamId: team, keyId: key.id });
    await keyrun.teams.deleteTeam({ teamId: team });
    await expect.poll(() => app.isWaiting(ofTeam.text)).toBe(false);
    expect(app.isWaiting(ofOther.text)).toBe(true);
    await keyrun.teams.createTeam({ team: { id: team } });
    const again = rest(keyrun.publicUrl, (await newKey({}, team)).value);
    expect((await again.list()).runs).toEqual([]);
    await stays.cancel(ofOther.runId);
  });

  test("a drain answers those who wait at once, and at its end what still runs was interrupted", async () => {
    const folders = createTempFolders();
    onTestFinished(folders.remove);
    const place = {
      ...settings(),
      ...{ KEYRUN_DATA_DIR: folders.create(), KEYRUN_SECRET: randomBytes(32).toString("base64url") },
    };
    const own = await startKeyrun({ settings: { ...place, KEYRUN_DRAIN_MS_MAX: "200" } });
    await own.apps.createApp({ app: { id: "counted", backend: app.backend } });
    const { value } = await own.newKey(await own.newTeam());
    const text = fresh("wait");
    const { run } = await rest(own.publicUrl, value).start({ text });
    await app.started(text);
    const waiting = rest(own.publicUrl, value).get(run!.runId!, 50_000);
    await expect.poll(() => own.metric("keyrun_background_runs")).toBe(1);
    const closed = own.close();
    expect((await waiting).run).toMatchObject({ state: "RUN_STATE_RUNNING" });
    await closed;
    await expect.poll(() => app.isWaiting(text)).toBe(false);
    const next = await startKeyrun({ settings: place });
    onTestFinished(next.close);
    expect((await rest(next.publicUrl, value).get(run!.runId!)).run).toMatchObject({
      state: "RUN_STATE_FAILED",
      error: { code: "run_interrupted", status: 502 },
    });
    expect(app.starts(text)).toBe(1);
  });
});
