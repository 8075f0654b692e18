import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { eventually, madeOnce, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, type FleetMember, startFleet } from "../harness/fleet.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

/** Runs that are under way on the instance that is killed. */
const runs = 8;
const appTimeoutMs = 4_000;

let fleet: Fleet;
let app: Awaited<ReturnType<typeof startScriptedApp>>;
let value: string;

interface Order {
  readonly key: string;
  readonly text: string;
}

interface Answer {
  readonly status: number;
  readonly code: string | undefined;
  readonly message: string;
  readonly retryAfter: string | null;
  readonly replayed: string | null;
  readonly runId: string | undefined;
}

/** Asks again where an instance can't answer now. Undefined: the connection was lost. */
function ask(member: FleetMember, order: Order): Promise<Answer | undefined> {
  return eventually(
    () => askOnce(member, order),
    whileAnswer((answer) => answer?.status === 503),
  );
}

async function askOnce({ publicUrl }: FleetMember, { key, text }: Order): Promise<Answer | undefined> {
  const headers = {
    authorization: `Bearer ${value}`,
    "content-type": "application/json",
    "idempotency-key": key,
  };
  try {
    const body = JSON.stringify({ text });
    const answer = await fetch(`${publicUrl}/api/apps/counted/run`, { method: "POST", headers, body });
    const { runId, error } = (await answer.json()) as {
      runId?: string;
      error?: { code: string; message: string };
    };
    return {
      ...{ status: answer.status, code: error?.code, message: error?.message ?? "", runId },
      retryAfter: answer.headers.get("retry-after"),
      replayed: answer.headers.get("idempotency-replayed"),
    };
  } catch {
    return undefined;
  }
}

describeFleet("processes")("an instance that is killed in the middle of runs with an Idempotency-Key", () => {
  beforeAll(async () => {
    app = await startScriptedApp();
    fleet = await startFleet({ in: "processes" });
    const management = fleet.manage(1);
    const timeout = { seconds: BigInt(appTimeoutMs / 1_000), nanos: 0 };
    await madeOnce(() =>
      management.apps.createApp({ app: { id: "counted", backend: app.backend, timeout } }),
    );
    ({ value } = await management.newKey(await management.newTeam()));
  });
  afterAll(async () => {
    await fleet?.close();
    await app?.close();
  });

  test("a repeat elsewhere gets 409 until the lease of the killed one is over, then 502 that it may have done its work, and starts the app no second time", {
    timeout: 240_000,
  }, async () => {
    const [victim, ...others] = fleet.members as [FleetMember, FleetMember, FleetMember];
    const orders: Order[] = Array.from({ length: runs }, () => ({
      key: randomUUID(),
      text: `hang ${randomUUID()}`,
    }));
    const done: Order = { key: randomUUID(), text: "hello" };
    const answered = await ask(victim, done);
    const cutOff = orders.map((order) => ask(victim, order));
    await Promise.all(orders.map(({ text }) => app.started(text)));
    await victim.kill();
    const killedMs = performance.now();
    // A caller whose connection is lost repeats at once, at the instances that are left.
    expect(await Promise.all(cutOff)).toEqual(orders.map(() => undefined));
    const first = orders.map((order, place) => ask(others[place % 2]!, order));
    expect(answered).toMatchObject({ status: 200, replayed: null });
    for (const other of others) {
      expect(await ask(other, done)).toEqual({ ...answered, replayed: "true" });
    }
    const another = await ask(others[0]!, { key: orders[0]!.key, text: "another text" });
    expect(another).toMatchObject({ status: 422, code: "idempotency_key_reused" });
    // They wait for as long as a run of the app may take.
    expect(await Promise.all(first)).toMatchObject(
      orders.map(() => ({ status: 409, code: "idempotency_key_in_use", retryAfter: "1" })),
    );
    await victim.start();

    const last = await Promise.all(
      orders.map(async (order, place) => {
        const member = fleet.members[place % 3]!;
        const answer = await eventually(() => ask(member, order), {
          ...whileAnswer((answer) => answer === undefined || answer.status === 409),
          ...{ triesMax: 180, pauseMs: 1_000 },
        });
        return { ...answer!, ms: performance.now() - killedMs };
      }),
    );
    const told = last.map(({ ms }) => ms / 1_000);
    figure("502 elsewhere after at least", Math.min(...told), "s");
    figure("502 elsewhere after at most", Math.max(...told), "s");
    figure("keys not started once", orders.filter(({ text }) => app.starts(text) !== 1).length);
    expect(last).toMatchObject(last.map(() => ({ status: 502, code: "run_interrupted", replayed: "true" })));
    // The answer is the same everywhere from now on.
    for (const member of fleet.members) {
      for (const order of orders) expect(await ask(member, order)).toMatchObject({ status: 502 });
    }
    expect([done, ...orders].map(({ text }) => app.starts(text))).toEqual([1, ...orders.map(() => 1)]);
  });
});
