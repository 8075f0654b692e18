import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { type Caller, connectCallers } from "../harness/callers.ts";
import { campaignSize, figures } from "../harness/campaigns.ts";
import { eventually, madeOnce, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import type { Keyrun } from "../harness/keyrun.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

const rounds = campaignSize("fleet-idempotency");

describeFleet("here")("an Idempotency-Key is one over the fleet", () => {
  let fleet: FleetHere;
  let app: Awaited<ReturnType<typeof startScriptedApp>>;
  beforeAll(async () => {
    app = await startScriptedApp();
    fleet = await startFleet({ in: "here", settings: { KEYRUN_PLAN_LIMITS: "free=100000" } });
    await madeOnce(() => fleet.members[0].apps.createApp({ app: { id: "counted", backend: app.backend } }));
  });
  afterAll(async () => {
    await fleet.close();
    await app.close();
  });

  interface Order {
    readonly value: string;
    readonly key: string;
    readonly text: string;
  }

  /** Asks again where an instance can't answer now: its repeat is known by its key. */
  const send = (keyrun: Keyrun, order: Order) =>
    eventually(
      () => sendOnce(keyrun, order),
      whileAnswer(({ status }) => status === 503),
    );

  async function sendOnce({ publicUrl }: Keyrun, order: Order) {
    const answer = await fetch(`${publicUrl}/api/apps/counted/run`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${order.value}`,
        "content-type": "application/json",
        "idempotency-key": order.key,
      },
      body: JSON.stringify({ text: order.text }),
    });
    const body = (await answer.json()) as { runId?: string; text?: string; error?: { code: string } };
    const header = (name: string) => answer.headers.get(name);
    return {
      status: answer.status,
      body,
      replayed: header("idempotency-replayed"),
    };
  }

  test("a key under way on one is waited for on the other, and then both tell what came of it", async () => {
    const [one, other] = fleet.members;
    const { value } = await one.newKey(await one.newTeam());
    const order = { value, key: randomUUID(), text: `wait ${randomUUID()}` };
    const first = send(one, order);
    await app.started(order.text);
    const repeat = send(other, order);
    const another = await send(other, { ...order, text: "another text" });
    expect(another).toMatchObject({ status: 422, body: { error: { code: "idempotency_key_reused" } } });
    app.release(order.text);
    const { status, body, replayed } = await first;
    expect([status, replayed]).toEqual([200, null]);
    for (const again of [await repeat, await send(other, order), await send(one, order)]) {
      expect(again).toMatchObject({ status: 200, body: { runId: body.runId }, replayed: "true" });
    }
    expect(app.starts(order.text)).toBe(1);
  });

  test("a team deleted on one leaves no record behind, whichever instance wrote it", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    const key = await one.newKey(teamId);
    const order = { value: key.value, key: randomUUID(), text: `hello ${randomUUID()}` };
    expect((await send(other, order)).status).toBe(200);
    await one.keys.revokeKey({ teamId, keyId: key.id });
    await one.teams.deleteTeam({ teamId });
    await other.teams.createTeam({ team: { id: teamId, plan: Plan.FREE } });
    const { value } = await other.newKey(teamId);
    expect(await send(one, { ...order, value })).toMatchObject({ status: 200, replayed: null });
    expect(app.starts(order.text)).toBe(2);
  });

  test(`the same key from many callers of both starts the app once, for ${rounds} keys`, async () => {
    const [one, other] = fleet.members;
    const authorization = `Bearer ${(await one.newKey(await one.newTeam())).value}`;
    const connect = connectCallers["Connect over HTTP/1.1"]!;
    const callers = [one, other].flatMap(({ publicUrl }) => [
      ...[restCaller(publicUrl), restCaller(publicUrl), connect(publicUrl), grpcJsCaller(publicUrl)],
    ]);
    let tries = 0;
    async function answerOf(caller: Caller, key: string): Promise<string> {
      for (;;) {
        tries += 1;
        const headers = { "idempotency-key": key };
        const outcome = await caller.run({ appId: "counted", text: key, authorization, headers });
        if (outcome.kind === "ok") return outcome.answer.runId;
        // Another one has it, or an instance can't answer now.
        expect(outcome.message).toMatch(/has not ended|can't answer this now/);
        // As clients do, but sooner.
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
    const wrong: string[] = [];
    let next = 0;
    const round = async () => {
      while (next++ < rounds) {
        const key = `hello-${randomUUID()}`;
        const runIds = new Set(await Promise.all(callers.map((caller) => answerOf(caller, key))));
        if (app.starts(key) !== 1 || runIds.size !== 1)
          wrong.push(`${key}: ${app.starts(key)} starts, ${runIds.size} answers`);
      }
    };
    await Promise.all([round(), round(), round(), round()]);
    for (const caller of callers) caller.close();
    figures(`${rounds} keys`, { requests: tries, "started twice": wrong.length });
    expect(wrong).toEqual([]);
  });
});
