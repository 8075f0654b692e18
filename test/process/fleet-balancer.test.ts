import { Agent, request } from "node:http";
import { constants } from "node:http2";
import { setTimeout as pause } from "node:timers/promises";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { bounds } from "#src/bounds.ts";
import { connectCallers } from "../harness/callers.ts";
import { figure } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, type FleetMember, startFleet } from "../harness/fleet.ts";
import { h2cSession } from "../harness/h2c-client.ts";
import { type ShippedHaProxy, startShippedHaProxy } from "../harness/haproxy.ts";
import { restRunOnce } from "../harness/keyrun-process.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { until } from "../harness/until.ts";

/** Over HTTP/1.1, each with one connection that it keeps, and as gRPC clients. */
const restCallers = 12;
const grpcCallers = 4;
const drainDelayMs = 2_500;
/** More than HAProxy needs to find that a port is closed. */
const afterDelayMs = 4_000;

const folders = createTempFolders();
let app: Awaited<ReturnType<typeof startScriptedApp>>;
let fleet: Fleet;
let members: readonly [FleetMember, FleetMember];
let haproxy: ShippedHaProxy;
let value: string;

interface Answered {
  readonly beganMs: number;
  readonly endedMs: number;
  /** Undefined: accepted. */
  readonly failure: string | undefined;
}

/** One request after the other, until it is ended. */
function startCaller(send: () => Promise<string | undefined>) {
  const answers: Answered[] = [];
  let isOver = false;
  const loop = async () => {
    while (!isOver) {
      const beganMs = performance.now();
      const failure = await send();
      answers.push({ beganMs, endedMs: performance.now(), failure });
      await pause(20);
    }
  };
  const looping = loop();
  return {
    answers,
    end() {
      isOver = true;
      return looping;
    },
  };
}

async function restSend(agent: Agent): Promise<string | undefined> {
  const headers = { authorization: `Bearer ${value}`, "content-type": "application/json" };
  return new Promise((resolve) => {
    const sent = request(`${haproxy.url}/api/apps/echo/run`, { agent, method: "POST", headers }, (answer) => {
      let body = "";
      answer.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      answer.on("close", () =>
        resolve(answer.statusCode === 200 ? undefined : `${answer.statusCode} ${body}`),
      );
    });
    sent.on("error", (cause) => resolve(`${cause}`));
    sent.end('{"text":"x"}');
  });
}

function startLoad() {
  const rest = Array.from({ length: restCallers }, () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    return startCaller(() => restSend(agent));
  });
  const connect = connectCallers.gRPC!(haproxy.url);
  const grpc = Array.from({ length: grpcCallers }, () =>
    startCaller(async () => {
      const answer = await connect.run({ appId: "echo", text: "x", authorization: `Bearer ${value}` });
      return answer.kind === "ok" ? undefined : answer.message;
    }),
  );
  const callers = [...rest, ...grpc];
  const of = (hasFailed: boolean) =>
    callers.flatMap(({ answers }) => answers.filter(({ failure }) => (failure !== undefined) === hasFailed));
  return {
    /** Resolves once each caller's request was accepted that it sent from now on. */
    async served(): Promise<void> {
      const sinceMs = performance.now();
      const isServed = ({ answers }: (typeof callers)[number]) =>
        answers.some(({ beganMs, failure }) => beganMs >= sinceMs && failure === undefined);
      await until(() => callers.every(isServed));
    },
    async end() {
      await Promise.all(callers.map((caller) => caller.end()));
      connect.close();
      const gaps = callers.flatMap(({ answers }) => {
        const accepted = answers.filter(({ failure }) => failure === undefined);
        return accepted.slice(1).map(({ endedMs }, place) => endedMs - accepted[place]!.endedMs);
      });
      const failed = of(true);
      const isBusy = ({ failure = "" }: Answered) => /can't answer this now|has more to do/.test(failure);
      const words = `${of(false).length} accepted, ${failed.length} failed, at most ${inSeconds(Math.max(...gaps))} s apart`;
      return { failed: failed.filter((each) => !isBusy(each)), busy: failed.filter(isBusy), words };
    },
  };
}

describeFleet("processes")("two instances behind the balancer of compose.yaml", () => {
  beforeAll(async () => {
    app = await startScriptedApp();
    const settings = { KEYRUN_DRAIN_DELAY_MS: `${drainDelayMs}`, KEYRUN_DRAIN_MS_MAX: "60000" };
    fleet = await startFleet({ in: "processes", size: 2, settings });
    members = [fleet.members[0]!, fleet.members[1]!];
    haproxy = await startShippedHaProxy(folders.create(), members);
    for (const place of [0, 1] as const) await haproxy.until(place, "UP");
    const management = fleet.manage(1);
    const timeout = durationFromMs(bounds.appTimeoutMsMax);
    await management.apps.createApp({ app: { id: "scripted", backend: app.backend, timeout } });
    ({ value } = await management.newKey(await management.newTeam()));
  });
  afterAll(async () => {
    members?.[0].resume();
    await haproxy?.close();
    await fleet?.close();
    await app?.close();
    folders.remove();
  });

  /**
   * Does it again where the machine held up the other instance, too, so that the balancer had
   * nobody to turn to, or starved one, which said so and answered 503.
   */
  async function undisturbed(story: () => Promise<{ readonly busy: readonly Answered[] }>): Promise<void> {
    const attempt = async () => {
      const [downs, starved] = [haproxy.downs(1), fleet.starvation().length];
      const outcome = await story().catch((thrown: unknown) => ({ thrown }));
      if (haproxy.downs(1) > downs) return "disturbed";
      if ("thrown" in outcome) throw outcome.thrown;
      if (outcome.busy.length > 0 && fleet.starvation().length > starved) return "disturbed";
      expect(outcome.busy).toEqual([]);
      return "decided";
    };
    await eventually(attempt, { ...whileAnswer((outcome) => outcome === "disturbed"), triesMax: 3 });
  }

  test("a drain fails nothing: neither what comes meanwhile, nor a run that takes longer than the delay", () =>
    undisturbed(async () => {
      const [leaving] = members;
      const load = startLoad();
      await load.served();
      const runs = Array.from({ length: 8 }, () =>
        restRunOnce(haproxy.url, { value, appId: "scripted", text: "wait" }),
      );
      await app.waits(runs.length);
      leaving.process().kill("SIGTERM");
      await haproxy.until(0, "NOLB");
      await pause(drainDelayMs + afterDelayMs);
      app.release();
      const answers = await Promise.all(runs);
      expect((await leaving.process().exited).code).toBe(0);
      await haproxy.until(0, "DOWN");
      await leaving.start();
      await haproxy.until(0, "UP");
      const { failed, busy, words } = await load.end();
      figure("drained", words);
      expect(failed.slice(0, 3)).toEqual([]);
      expect(answers.map(({ status }) => status)).toEqual(runs.map(() => 200));
      return { busy };
    }));

  test("a caller that leaves ends its run, and the app's place is free long before its timeout", async () => {
    const h2 = await h2cSession(haproxy.url);
    onTestFinished(() => h2.destroy());
    const path = "/api/apps/scripted/run";
    const authorization = `Bearer ${value}`;
    const headers = { authorization, "content-type": "application/json" };
    const http1 = request(`${haproxy.url}${path}`, { method: "POST", headers });
    http1.on("error", () => {}).end('{"text":"wait"}');
    const http2 = h2.request({ ":method": "POST", ":path": path, ...headers });
    http2.on("error", () => {}).end('{"text":"wait"}');
    const leaving = new AbortController();
    const transport = createGrpcTransport({ baseUrl: haproxy.url });
    const grpc = createClient(RunService, transport)
      .runApp({ appId: "scripted", text: "wait" }, { headers: { authorization }, signal: leaving.signal })
      .catch((thrown: unknown) => ConnectError.from(thrown).code);
    await app.waits(3);
    http1.destroy();
    await until(() => app.waiting() === 2);
    http2.close(constants.NGHTTP2_CANCEL);
    await until(() => app.waiting() === 1);
    leaving.abort();
    await until(() => app.waiting() === 0);
    expect(await grpc).toBe(Code.Canceled);
  });

  test.each([
    ["frozen", () => members[0].pause()],
    ["killed", () => members[0].kill()],
  ] as const)(
    "an instance that is %s holds up no caller: each is served again while it is gone",
    (how, stop) =>
      undisturbed(async () => {
        const load = startLoad();
        await load.served();
        await stop();
        await haproxy.until(0, "DOWN");
        const downMs = performance.now();
        await load.served();
        const { failed, busy, words } = await load.end();
        figure(how, words);
        members[0].resume();
        if (how === "killed") await members[0].start();
        await haproxy.until(0, "UP");
        // What was under way on that instance: of each caller, at most one request.
        expect(failed.length).toBeLessThanOrEqual(restCallers + grpcCallers);
        expect(failed.filter(({ beganMs }) => beganMs > downMs)).toEqual([]);
        // The balancer ended those itself. Else it answers 504 after `timeout server`.
        expect(failed.filter(({ failure }) => failure?.startsWith("504"))).toEqual([]);
        return { busy };
      }),
  );
});

function inSeconds(ms: number): string {
  return (ms / 1_000).toFixed(1);
}
