import { randomUUID } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import type { Stores } from "#src/store/stores.ts";
import { type Caller, connectCallers, type RunOutcome } from "../harness/callers.ts";
import { freePort } from "../harness/free-port.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { storeOfTier } from "../harness/mongo-databases.ts";
import { restCaller, restH2Caller } from "../harness/rest-caller.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

const callers = {
  "REST over HTTP/1.1": restCaller,
  "REST over HTTP/2": restH2Caller,
  "Connect over HTTP/1.1": connectCallers["Connect over HTTP/1.1"]!,
  "gRPC-Web over HTTP/1.1": connectCallers["gRPC-Web over HTTP/1.1"]!,
  "gRPC by grpc-js": grpcJsCaller,
};

describe.each(storeOfTier())("with %s", (_, settings) => {
  describe("a run with an Idempotency-Key", () => {
    const clock = createManualClock();
    /** Ends of runs are lost, as if the process had been killed before it could write them. */
    let losesEnds = false;
    let keyrun: Keyrun;
    let app: Awaited<ReturnType<typeof startScriptedApp>>;

    const losing = (stores: Stores): Stores => ({
      ...stores,
      runs: {
        ...stores.runs,
        async write(changes) {
          const kept = changes.filter(({ kind }) => !(losesEnds && kind === "end"));
          const found = await stores.runs.write(kept);
          return changes.map((change) => found[kept.indexOf(change)]);
        },
      },
    });

    beforeAll(async () => {
      app = await startScriptedApp();
      keyrun = await startKeyrun({
        clock,
        settings: { ...settings(), KEYRUN_APP_RUNS_MAX: "2" },
        onStores: losing,
      });
      const { backend } = app;
      const nowhere = { kind: { case: "http", value: { url: `http://127.0.0.1:${await freePort()}/` } } };
      for (const id of ["counted", "other", "small"]) await keyrun.apps.createApp({ app: { id, backend } });
      const timeout = { seconds: 0n, nanos: 300_000_000 };
      await keyrun.apps.createApp({ app: { id: "hasty", backend, timeout } });
      await keyrun.apps.createApp({ app: { id: "nowhere", backend: nowhere as typeof backend } });
    });
    afterAll(async () => {
      await keyrun.close();
      await app.close();
    });

    describe.each(Object.entries(callers))("over %s", (name, make) => {
      const isRest = name.startsWith("REST");
      let caller: Caller;
      let authorization = "";
      beforeAll(async () => {
        caller = make(keyrun.publicUrl);
        authorization = await newAuthorization();
      });
      afterAll(() => caller.close());

      const newAuthorization = async () =>
        `Bearer ${(await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE))).value}`;
      const send = (key: string, text: string | undefined, more: { appId?: string; headers?: object } = {}) =>
        caller.run({
          ...{ appId: more.appId ?? "counted", authorization },
          ...(text !== undefined && { text }),
          headers: { "idempotency-key": key, ...more.headers },
        });
      /** A key and a text that no other test uses. */
      const fresh = (word: string) => ({ key: randomUUID(), text: `${word} ${randomUUID()}` });
      const reasonOf = (outcome: RunOutcome) =>
        outcome.kind === "ok" ? "ok" : (outcome.details[0] as { reason?: string }).reason;
      const isReplayed = ({ headers }: RunOutcome) => headers.get("idempotency-replayed") === "true";

      test("is run once: a repeat gets the same answer, and says that it is a repeat", async () => {
        const { key, text } = fresh("hello");
        const first = await send(key, text);
        const again = await send(key, text, { headers: { "x-request-id": "own-id-7" } });
        const quoted = await send(`"${key}"`, text);
        expect(first).toMatchObject({ kind: "ok", answer: { appId: "counted", text: text.toUpperCase() } });
        for (const repeat of [again, quoted]) {
          expect(repeat.kind === "ok" && repeat.answer).toEqual(first.kind === "ok" && first.answer);
        }
        expect([first, again, quoted].map(isReplayed)).toEqual([false, true, true]);
        expect(again.headers.get("x-request-id")).toBe("own-id-7");
        const left = [first, again, quoted].map(({ headers }) => Number(headers.get("ratelimit-remaining")));
        expect(left.map((each) => each - left[0]!)).toEqual([0, -1, -2]);
        expect(app.starts(text)).toBe(1);
      });

      test("an app that failed or was late has failed for its key, and is not started again", async () => {
        for (const [word, appId, reason] of [
          ["fail", "counted", "APP_FAILED"],
          ["hang", "hasty", "APP_TIMEOUT"],
        ] as const) {
          const { key, text } = fresh(word);
          const [first, again] = [await send(key, text, { appId }), await send(key, text, { appId })];
          expect([first, again].map(reasonOf)).toEqual([reason, reason]);
          expect([first, again].map(isReplayed)).toEqual([false, true]);
          expect(again.headers.get("x-should-retry")).toBe("false");
          expect(app.starts(text)).toBe(1);
        }
      });

      test("an app that refused has refused for its key: each repeat gets the same words", async () => {
        const { key, text } = fresh("refuse");
        const [first, again] = [await send(key, text), await send(key, text)];
        for (const refused of [first, again]) {
          expect(reasonOf(refused)).toBe("APP_REFUSED");
          expect(refused).toMatchObject({ message: text, code: Code.InvalidArgument });
          expect(refused.headers.get("x-should-retry")).toBe("false");
        }
        expect([first, again].map(isReplayed)).toEqual([false, true]);
        expect(app.starts(text)).toBe(1);
      });

      test("an app that said that it did nothing frees the key, and is started again", async () => {
        const { key, text } = fresh("busy");
        for (const starts of [1, 2]) {
          const busy = await send(key, text);
          expect(reasonOf(busy)).toBe("APP_BUSY");
          expect(busy.headers.get("x-should-retry")).toBeNull();
          expect(app.starts(text)).toBe(starts);
        }
        expect(await send(key, "now")).toMatchObject({ kind: "ok", answer: { text: "NOW" } });
      });

      test("another text under the key is refused, also while the app is at work", async () => {
        const { key, text } = fresh("wait");
        const first = send(key, text);
        await app.started(text);
        const meanwhile = await send(key, `${text}!`);
        app.release(text);
        expect(await first).toMatchObject({ kind: "ok" });
        for (const refused of [meanwhile, await send(key, "")]) {
          expect(reasonOf(refused)).toBe("IDEMPOTENCY_KEY_REUSED");
          expect(refused).toMatchObject({ code: Code.FailedPrecondition });
          if (isRest) expect(refused).toMatchObject({ httpStatus: 422 });
          expect(isReplayed(refused)).toBe(false);
          expect(refused.headers.get("ratelimit-remaining")).toMatch(/^\d+$/);
        }
        expect(app.starts(`${text}!`)).toBe(0);
      });

      test("a repeat while the app is at work waits, and gets the same answer", async () => {
        const { key, text } = fresh("wait");
        const first = send(key, text);
        await app.started(text);
        const repeats = [send(key, text), send(key, text)];
        const remaining = async () => {
          const { headers } = await send(randomUUID(), "look");
          return Number(headers.get("ratelimit-remaining"));
        };
        const before = await remaining();
        await expect.poll(remaining).toBeLessThan(before - 1);
        app.release(text);
        const outcomes = await Promise.all([first, ...repeats]);
        expect(outcomes.map((each) => each.kind === "ok" && each.answer.text)).toEqual(
          Array(3).fill("released"),
        );
        expect(new Set(outcomes.map((each) => each.kind === "ok" && each.answer.runId)).size).toBe(1);
        expect(outcomes.map(isReplayed)).toEqual([false, true, true]);
        expect(app.starts(text)).toBe(1);
      });

      test("a run whose end was never written is under way for its key: a repeat waits, and is told so", async () => {
        const { key, text } = fresh("hello");
        losesEnds = true;
        expect(await send(key, text, { appId: "hasty" })).toMatchObject({ kind: "ok" });
        losesEnds = false;
        const early = await send(key, text, { appId: "hasty" });
        expect(reasonOf(early)).toBe("IDEMPOTENCY_KEY_IN_USE");
        expect(early).toMatchObject({ code: Code.Aborted });
        if (isRest) {
          expect(early).toMatchObject({ httpStatus: 409 });
          expect(early.headers.get("retry-after")).toBe("1");
        }
        expect(reasonOf(await send(key, `${text}!`, { appId: "hasty" }))).toBe("IDEMPOTENCY_KEY_REUSED");
        expect(app.starts(text)).toBe(1);
      });

      test("what ended before the app could start frees the key", async () => {
        const { key } = fresh("");
        const text = `wait ${key}`;
        expect(reasonOf(await send(key, undefined))).toBe("INVALID_ARGUMENT");
        expect(reasonOf(await send(key, text, { appId: "none" }))).toBe("APP_NOT_FOUND");
        expect(reasonOf(await send(key, text, { appId: "nowhere" }))).toBe("APP_UNREACHABLE");
        expect(reasonOf(await send(key, "another", { appId: "nowhere" }))).toBe("APP_UNREACHABLE");
        const [one, two] = [fresh("wait"), fresh("wait")];
        const running = [one, two].map((each) => send(each.key, each.text, { appId: "small" }));
        await Promise.all([one, two].map((each) => app.started(each.text)));
        expect(reasonOf(await send(key, text, { appId: "small" }))).toBe("APP_BUSY");
        for (const each of [one, two]) app.release(each.text);
        await Promise.all(running);
        expect(app.starts(text)).toBe(0);
        const other = `HELLO ${key}`.toUpperCase();
        expect(await send(key, other, { appId: "small" })).toMatchObject({ answer: { text: other } });
      });

      test("a key is the team's and the app's own, and one that is a day old is as good as new", async () => {
        const { key, text } = fresh("hello");
        await send(key, text);
        expect(isReplayed(await send(key, text, { appId: "other" }))).toBe(false);
        const mine = authorization;
        authorization = await newAuthorization();
        expect(isReplayed(await send(key, `${text}!`))).toBe(false);
        authorization = mine;
        clock.stepWall(24 * 3_600_000 - 1);
        expect(isReplayed(await send(key, text))).toBe(true);
        clock.stepWall(1);
        expect(isReplayed(await send(key, `${text} anew`))).toBe(false);
        expect([app.starts(text), app.starts(`${text}!`), app.starts(`${text} anew`)]).toEqual([2, 1, 1]);
      });

      test.each([
        ["nothing in quotes", '""'],
        ["a space", "a b"],
        ["two of them, as a list", "one, two"],
        ["an open quote", '"abc'],
        ["more after the quote", '"abc";v=1'],
        ["too many characters", "k".repeat(256)],
      ])("a key of %s is refused by its name", async (_, key) => {
        const text = `hello ${randomUUID()}`;
        const outcome = await send(key, text);
        expect(reasonOf(outcome)).toBe("INVALID_ARGUMENT");
        expect(JSON.stringify(outcome)).toContain('"field":"Idempotency-Key"');
        expect(outcome).toMatchObject({
          message: "Send Idempotency-Key once, with 1 to 255 visible ASCII characters.",
        });
        expect(app.starts(text)).toBe(0);
      });

      test("every other key of 1 to 255 characters is good, and quotes in it are escaped", async () => {
        const long = randomUUID().padEnd(255, "~");
        for (const [plain, quoted] of [
          [long, `"${long}"`],
          [`!${randomUUID()}"\\`, undefined],
        ]) {
          const text = `hello ${randomUUID()}`;
          expect(await send(plain!, text)).toMatchObject({ kind: "ok" });
          const escaped = quoted ?? `"${plain!.replace(/(["\\])/g, "\\$1")}"`;
          expect(isReplayed(await send(escaped, text))).toBe(true);
        }
      });

      test("a run goes on when its caller leaves, and the next one gets the answer", async () => {
        const { key, text } = fresh("wait");
        const leaving = make(keyrun.publicUrl);
        const left = leaving
          .run({ appId: "counted", text, authorization, headers: { "idempotency-key": key } })
          .catch(() => undefined);
        await app.started(text);
        leaving.close();
        const next = send(key, text);
        app.release(text);
        await left;
        expect(await next).toMatchObject({ kind: "ok", answer: { text: "released" } });
        expect(app.starts(text)).toBe(1);
      });
    });
  });
});
