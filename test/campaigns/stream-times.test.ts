import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { timeFigures } from "../harness/campaigns.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, type StreamCaller } from "../harness/stream-callers.ts";
import { type AppKind, appKinds, kindOf, type ServedApp, type Talk } from "../harness/streamed-apps.ts";

/** So many times are told, as other processes may hold up any single one. */
const repeats = 21;

let texts = 0;

const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_LIMITS: "enterprise=100000" } }));
const key = await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE));

const kinds = Object.entries(appKinds).filter(([, { isWhole }]) => !isWhole);
const callers = Object.entries({ ...restStreamCallers, ...connectStreamCallers });

describe.each(kinds.map(([name, kind], at) => [name, kind, `app-${at}`] as const))(
  "%s",
  (kindName, kind: AppKind, appId) => {
    const talks = new Map<string, PromiseWithResolvers<Talk>>();
    let server: ServedApp;

    beforeAll(async () => {
      server = await kind.serve((talk) => talks.get(talk.text)?.resolve(talk));
      await keyrun.apps.createApp({ app: { id: appId, backend: { kind: kindOf(server.backend) } } });
    });

    afterAll(() => server[Symbol.asyncDispose]());

    /** A stream whose run the app has got, and not answered yet. */
    async function opened(caller: StreamCaller, value = key.value) {
      texts += 1;
      const text = `text ${texts}`;
      const talk = Promise.withResolvers<Talk>();
      talks.set(text, talk);
      const stream = caller.open({ appId, text, authorization: `Bearer ${value}` });
      const first = stream.next();
      return { stream, first, talk: await talk.promise };
    }

    /** A stream whose caller has the first piece of the output. */
    async function begun(caller: StreamCaller, value?: string) {
      const { stream, first, talk } = await opened(caller, value);
      talk.say("one");
      expect((await first).kind).toBe("started");
      expect(await stream.next()).toEqual({ kind: "delta", text: "one" });
      return { stream, talk };
    }

    describe.each(callers)("to %s", (name, make) => {
      const tell = (what: string, times: readonly number[]) =>
        timeFigures(`${what}, ${kindName} to ${name}`, times);
      let caller: StreamCaller;
      beforeAll(() => {
        caller = make(keyrun.publicUrl);
      });
      afterAll(() => caller.close());

      test("the first piece comes before the app says more or ends", async () => {
        const times = await timesOf(async () => {
          const { stream, first, talk } = await opened(caller);
          const sentMs = performance.now();
          talk.say("one");
          await first;
          expect(await stream.next()).toEqual({ kind: "delta", text: "one" });
          const tookMs = performance.now() - sentMs;
          talk.end();
          expect(await stream.next()).toEqual({ kind: "end" });
          return tookMs;
        });
        tell("the first piece", times);
      });

      test("the app's call ends when its caller leaves", async () => {
        const times = await timesOf(async () => {
          const { stream, talk } = await begun(caller);
          const leftMs = performance.now();
          stream.leave();
          await talk.gone;
          return performance.now() - leftMs;
        });
        tell("the end after a caller left", times);
      });

      test("a revoke ends each stream of its key", async () => {
        const { id: keyId, teamId, value } = await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE));
        const streams = await Promise.all(Array.from({ length: repeats }, () => begun(caller, value)));
        const revokedMs = performance.now();
        await keyrun.keys.revokeKey({ teamId, keyId });
        const times = await Promise.all(
          streams.map(async ({ stream, talk }) => {
            expect(await stream.next()).toMatchObject({ kind: "refused", reason: "REVOKED_API_KEY" });
            await talk.gone;
            return performance.now() - revokedMs;
          }),
        );
        tell("the end after a revoke", times);
      });
    });
  },
);

async function timesOf(measure: () => Promise<number>): Promise<number[]> {
  const times: number[] = [];
  while (times.length < repeats) times.push(await measure());
  return times;
}
