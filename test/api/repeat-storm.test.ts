import { randomUUID } from "node:crypto";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Caller, connectCallers } from "../harness/callers.ts";
import { campaignSize, figures } from "../harness/campaigns.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { storeOfTier } from "../harness/mongo-databases.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { openTcpProxy, type TcpProxy } from "../harness/tcp-proxy.ts";

const rounds = campaignSize("idempotency-storm");
const retriesMax = 2_000;

/** The same caller, which does not wait. Its answer is 202 while the run is under way. */
function preferring(caller: Caller): Caller {
  return {
    ...caller,
    run: (order) => caller.run({ ...order, headers: { ...order.headers, prefer: "respond-async" } }),
  };
}

describe.each(storeOfTier())("with %s", (store, settings) => {
  // The server that the tests build where there is no mongod is slow: it is cut less often.
  const pauses = store === "MongoDB" ? 8 : 1;
  describe("the same key from many callers", () => {
    let keyrun: Keyrun;
    let app: Awaited<ReturnType<typeof startScriptedApp>>;
    let proxy: TcpProxy;
    let callers: Caller[];
    let authorization = "";

    beforeAll(async () => {
      app = await startScriptedApp();
      keyrun = await startKeyrun({ settings: { ...settings(), KEYRUN_PLAN_LIMITS: "free=100000" } });
      await keyrun.apps.createApp({ app: { id: "counted", backend: app.backend } });
      authorization = `Bearer ${(await keyrun.newKey(await keyrun.newTeam())).value}`;
      const { host, port } = keyrun.app.publicAddress;
      proxy = await openTcpProxy({ host, port });
      const cutUrl = `http://127.0.0.1:${proxy.port}`;
      const connect = connectCallers["Connect over HTTP/1.1"]!;
      const [direct, cut] = [keyrun.publicUrl, cutUrl];
      callers = [restCaller(direct), connect(direct), grpcJsCaller(direct)];
      callers.push(restCaller(cut), restCaller(cut), connect(cut), connectCallers.gRPC!(cut));
      callers.push(preferring(restCaller(direct)), preferring(restCaller(cut)));
    });
    afterAll(async () => {
      for (const caller of callers) caller.close();
      await proxy.close();
      await keyrun.close();
      await app.close();
    });

    /** Sends until there is an answer, as a client that retries does. */
    async function answerOf(caller: Caller, key: string): Promise<{ runId: string; tries: number }> {
      for (let tries = 1; tries <= retriesMax; tries++) {
        const outcome = await caller
          .run({ appId: "counted", text: key, authorization, headers: { "idempotency-key": key } })
          .catch(() => undefined);
        if (outcome?.kind === "ok") return { runId: outcome.answer.runId, tries };
        // As clients do, but sooner.
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      throw new Error(`no answer to ${key} after ${retriesMax} tries`);
    }

    test(`an app is started once for each key, in ${rounds} rounds through a network that cuts`, {
      timeout: 180_000 + rounds * pauses * 1_000,
    }, async () => {
      const wrong: string[] = [];
      let tries = 0;
      let cuts = 0;
      let isOver = false;
      const cutting = (async () => {
        for (let n = 0; !isOver; n++) {
          for (let turns = (n * 13) % 37; turns > 0; turns--) await turn();
          proxy.mend();
          cuts += 1;
          // Lets some requests through between two cuts, and more with time: on a slow machine no
          // answer of MongoDB would ever come between two of the first.
          const pauseMs = pauses * (5 + ((n * 7) % 40)) * (1 + n / 100);
          await new Promise((resolve) => setTimeout(resolve, pauseMs));
        }
      })();
      let next = 0;
      const round = async () => {
        while (next++ < rounds) {
          const key = `hello ${randomUUID()}`.replace(" ", "-");
          const answers = await Promise.all(callers.map((caller) => answerOf(caller, key)));
          tries += answers.reduce((sum, each) => sum + each.tries, 0);
          if (app.starts(key) !== 1) wrong.push(`${key} was started ${app.starts(key)} times`);
          if (new Set(answers.map(({ runId }) => runId)).size !== 1) wrong.push(`${key} had several answers`);
        }
      };
      await Promise.all([round(), round(), round(), round()]);
      isOver = true;
      await cutting;
      figures(store, { requests: tries, cuts, "started twice": wrong.length });
      expect(wrong).toEqual([]);
    });
  });
});
