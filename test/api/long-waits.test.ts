import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { bounds } from "#src/bounds.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRunOnce } from "../harness/keyrun-process.ts";
import { isStreamed, runProtocols } from "../harness/protocols.ts";
import { reasonOfAnswer } from "../harness/reason-of-answer.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

let value = "";

const app = closedAtEnd(await startScriptedApp());
const keyrun = closedAtEnd(await startKeyrun());
const longest = { id: "longest", backend: app.backend, timeout: durationFromMs(bounds.appTimeoutMsMax) };
await keyrun.apps.createApp({ app: longest });
({ value } = await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE)));

const echo = async () => (await restRunOnce(keyrun.publicUrl, { value })).status;

/**
 * Holds what would be done after half a minute or more. Shorter waits go on: the server's own work
 * does not stand still. `pass` does what is due after this time.
 */
function holdLongWaits() {
  const [start, stop] = [globalThis.setTimeout, globalThis.clearTimeout];
  const held = new Map<unknown, { readonly ms: number; readonly run: () => void }>();
  const holding = (run: (...rest: unknown[]) => void, ms = 0, ...rest: unknown[]) => {
    // Those of Keyrun have no arguments: these are of its libraries.
    if (ms < 30_000 || rest.length > 0) return start(run, ms, ...rest);
    const timer = start(() => {}, ms).unref();
    held.set(timer, { ms, run });
    return timer;
  };
  vi.stubGlobal("setTimeout", holding);
  vi.stubGlobal("clearTimeout", (timer: NodeJS.Timeout) => {
    held.delete(timer);
    stop(timer);
  });
  const pass = (untilMs: number) => {
    const due = [...held].filter(([, { ms }]) => ms <= untilMs);
    for (const [timer, { run }] of due.sort(([, one], [, other]) => one.ms - other.ms)) {
      held.delete(timer);
      run();
    }
  };
  onTestFinished(() => {
    vi.unstubAllGlobals();
    // A list of deadlines has one timer, which later runs of the app rely on.
    pass(Number.POSITIVE_INFINITY);
  });
  return { pass };
}

const protocols = runProtocols.public.filter((protocol) => !isStreamed(protocol));

describe.each(protocols.map((protocol) => [protocol.name, protocol] as const))(
  "an app with a timeout of 10 minutes, over %s",
  (_, protocol) => {
    /** A run that waits for the app, in time that the test moves. */
    async function waitingRun() {
      const { pass } = holdLongWaits();
      const authorization = `Bearer ${value}`;
      const json = { appId: "longest", text: "wait" };
      const ask = protocol.ask(protocol.method, { json }, { headers: { authorization } });
      let isAnswered = false;
      const answer = protocol.http.exchange(keyrun.publicUrl, ask).finally(() => {
        isAnswered = true;
      });
      await app.waits(1);
      return { answer, isAnswered: () => isAnswered, pass };
    }

    test("answers after nearly as much time", async () => {
      const { answer, isAnswered, pass } = await waitingRun();
      pass(bounds.appTimeoutMsMax - 1);
      // What came of it would be told by then.
      await expect(echo()).resolves.toBe(200);
      expect([isAnswered(), app.waiting()]).toEqual([false, 1]);
      app.release();
      expect(reasonOfAnswer(await answer)).toBeUndefined();
    });

    test("that takes longer is told as its own timeout, and its slot is free", async () => {
      const { answer, pass } = await waitingRun();
      pass(bounds.appTimeoutMsMax);
      expect(reasonOfAnswer(await answer)).toBe("APP_TIMEOUT");
      await expect.poll(app.waiting).toBe(0);
    });
  },
);
