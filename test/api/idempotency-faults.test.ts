import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import type { RunChange } from "#src/run/kept/run-store.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import type { Stores } from "#src/store/stores.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

/** The changes that the store refuses, and whether it makes them all the same. */
const failing = { kind: "none", when: "before" as "before" | "after" };
let value = "";

function failingWrites(stores: Stores): Stores {
  const fails = (changes: readonly RunChange[]) => changes.some(({ kind }) => kind === failing.kind);
  return {
    ...stores,
    runs: {
      ...stores.runs,
      async write(changes) {
        if (fails(changes) && failing.when === "before") throw unavailable();
        const found = await stores.runs.write(changes);
        if (fails(changes)) throw unavailable();
        return found;
      },
    },
  };
}

const app = closedAtEnd(await startScriptedApp());
const keyrun = closedAtEnd(await startKeyrun({ onStores: failingWrites }));
await keyrun.apps.createApp({ app: { id: "counted", backend: app.backend } });
value = await newValue();

async function newValue(plan: Plan = Plan.ENTERPRISE) {
  return (await keyrun.newKey(await keyrun.newTeam(plan))).value;
}

/** The parts of an answer that the tests read. */
interface Body {
  readonly runId?: string;
  readonly code?: string;
  readonly error?: { readonly code: string; readonly param: string | null; readonly message: string };
}

interface Sent {
  readonly text: string;
  readonly key?: string;
  readonly by?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

async function send({ text, key = randomUUID(), by = value, path, headers }: Sent) {
  const answer = await fetch(`${keyrun.publicUrl}${path ?? "/api/apps/counted/run"}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${by}`,
      "content-type": "application/json",
      "idempotency-key": key,
      ...headers,
    },
    body: JSON.stringify({ text }),
  });
  const body = (await answer.json()) as Body;
  const replayed = answer.headers.get("idempotency-replayed");
  return {
    status: answer.status,
    code: body.error?.code ?? body.code,
    body,
    replayed,
    headers: answer.headers,
  };
}

const fresh = (word: string) => ({ key: randomUUID(), text: `${word} ${randomUUID()}` });

describe("a store that fails", () => {
  test.each(["before", "after"] as const)(
    "as the key is claimed, %s it wrote: the app is not started, and the key is soon free",
    async (when) => {
      const order = fresh("hello");
      Object.assign(failing, { kind: "insert", when });
      const refused = await send(order);
      failing.kind = "none";
      expect(refused).toMatchObject({ status: 503, code: "unavailable" });
      expect(refused.headers.get("retry-after")).toBe("1");
      expect(refused.headers.get("x-should-retry")).toBeNull();
      expect(app.starts(order.text)).toBe(0);
      await expect.poll(async () => (await send(order)).status).toBe(200);
      expect(app.starts(order.text)).toBe(1);
    },
  );

  test("as the answer is written: the caller gets it, and a repeat once it is written", async () => {
    const order = fresh("hello");
    Object.assign(failing, { kind: "end", when: "before" });
    const first = await send(order);
    const repeat = send(order);
    await expect.poll(() => keyrun.logLines.some((line) => line.includes("could not be written"))).toBe(true);
    failing.kind = "none";
    const both = [first, await repeat];
    expect(both.map(({ status, replayed }) => [status, replayed])).toEqual([
      [200, null],
      [200, "true"],
    ]);
    expect(new Set(both.map(({ body }) => body.runId)).size).toBe(1);
    expect(app.starts(order.text)).toBe(1);
  });
});

describe("a repeat", () => {
  test("gets the form that it asks for itself", async () => {
    const order = fresh("fail");
    expect(await send(order)).toMatchObject({ status: 502, body: { error: { code: "app_failed" } } });
    const problem = await send({ ...order, headers: { accept: "application/problem+json" } });
    expect(problem.headers.get("content-type")).toBe("application/problem+json");
    expect(problem.body).toMatchObject({ type: "urn:keyrun:error:app_failed", status: 502 });
    expect(problem).toMatchObject({ replayed: "true" });
    expect(app.starts(order.text)).toBe(1);
  });

  test("comes after key, limit and app: 401, 429 and 404 are told as ever", async () => {
    const by = await newValue(Plan.FREE);
    const order = { ...fresh("hello"), by };
    expect(await send(order)).toMatchObject({ status: 200, replayed: null });
    expect(await send({ ...order, by: keyrun.unknownKey() })).toMatchObject({ status: 401, replayed: null });
    expect(await send({ ...order, path: "/api/apps/none/run" })).toMatchObject({ status: 404 });
    const repeats = await Promise.all(Array.from({ length: 60 }, () => send(order)));
    const statuses = repeats.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200).length).toBe(58);
    expect(statuses.filter((status) => status === 429).length).toBe(2);
    expect(app.starts(order.text)).toBe(1);
  });

  test("waits with at most so many others of its team, and one more is told to come back", async () => {
    const order = fresh("wait");
    const first = send(order);
    await app.started(order.text);
    let inUse = 0;
    const repeats = Array.from({ length: runBounds.runWaitsOfTeamMax + 3 }, async () => {
      const outcome = await send(order);
      if (outcome.status === 409) inUse += 1;
      return outcome;
    });
    await expect.poll(() => inUse).toBe(3);
    app.release(order.text);
    const outcomes = await Promise.all([first, ...repeats]);
    expect(outcomes.filter(({ status }) => status === 200).length).toBe(1 + runBounds.runWaitsOfTeamMax);
    const refused = outcomes.find(({ status }) => status === 409);
    expect(refused).toMatchObject({ code: "idempotency_key_in_use" });
    expect(refused?.headers.get("retry-after")).toBe("1");
    expect(app.starts(order.text)).toBe(1);
  });

  test("waits up to its own deadline, and is then told that the run has not ended", async () => {
    const order = fresh("wait");
    const first = send(order);
    await app.started(order.text);
    const late = await fetch(`${keyrun.publicUrl}/keyrun.v1.RunService/RunApp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${value}`,
        "content-type": "application/json",
        "idempotency-key": order.key,
        "connect-protocol-version": "1",
        "connect-timeout-ms": "1000",
      },
      body: JSON.stringify({ appId: "counted", text: order.text }),
    });
    expect(late.status).toBe(409);
    expect(await late.json()).toMatchObject({ code: "aborted" });
    app.release(order.text);
    await first;
  });

  test("of an app that was deleted and made anew does not start it: the key is that of its id", async () => {
    const order = { ...fresh("hello"), path: "/api/apps/reborn/run" };
    const made = { app: { id: "reborn", backend: app.backend } };
    await keyrun.apps.createApp(made);
    const first = await send(order);
    await keyrun.apps.deleteApp({ appId: "reborn" });
    expect(await send(order)).toMatchObject({ status: 404 });
    await keyrun.apps.createApp(made);
    expect(await send(order)).toMatchObject({ status: 200, replayed: "true", body: first.body });
    expect(app.starts(order.text)).toBe(1);
  });

  test("of a team that was deleted and made anew meets nothing of the old team", async () => {
    const order = fresh("hello");
    const teamId = await keyrun.newTeam();
    const old = await keyrun.newKey(teamId);
    expect(await send({ ...order, by: old.value })).toMatchObject({ status: 200 });
    await keyrun.keys.revokeKey({ teamId, keyId: old.id });
    await keyrun.teams.deleteTeam({ teamId });
    await keyrun.teams.createTeam({ team: { id: teamId } });
    const { value: by } = await keyrun.newKey(teamId);
    expect(await send({ ...order, by })).toMatchObject({ status: 200, replayed: null });
    expect(app.starts(order.text)).toBe(2);
  });
});

test("a stream can't have a key, and says so by name", async () => {
  const order = { ...fresh("hello"), path: "/api/apps/counted/stream" };
  const outcome = await send(order);
  expect(outcome).toMatchObject({ status: 400, code: "invalid_argument" });
  expect(outcome.body.error).toMatchObject({
    param: "Idempotency-Key",
    message: "A stream can't be repeated. Send the request without Idempotency-Key.",
  });
  expect(app.starts(order.text)).toBe(0);
});

test("a header that is sent twice is refused, also if both are the same", async () => {
  const { key, text } = fresh("hello");
  const headers = new Headers();
  for (const each of [key, key]) headers.append("idempotency-key", each);
  const outcome = await send({ text, key: headers.get("idempotency-key") ?? "" });
  expect(outcome).toMatchObject({ status: 400, body: { error: { param: "Idempotency-Key" } } });
  expect(app.starts(text)).toBe(0);
});

test("with KEYRUN_IDEMPOTENCY_HOURS=0 the header is refused, and nothing is kept", async () => {
  const other = await startKeyrun({ settings: { KEYRUN_IDEMPOTENCY_HOURS: "0" } });
  try {
    const { value: by } = await other.newKey(await other.newTeam());
    const run = (headers: Record<string, string>) =>
      fetch(`${other.publicUrl}/api/apps/echo/run`, {
        method: "POST",
        headers: { authorization: `Bearer ${by}`, "content-type": "application/json", ...headers },
        body: JSON.stringify({ text: "x" }),
      });
    const refused = await run({ "idempotency-key": "k" });
    expect(refused.status).toBe(400);
    expect(((await refused.json()) as Body).error).toMatchObject({
      param: "Idempotency-Key",
      message: "Idempotency-Key is turned off here. Send the request without Idempotency-Key.",
    });
    expect((await run({})).status).toBe(200);
  } finally {
    await other.close();
  }
});
