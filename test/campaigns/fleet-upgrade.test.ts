import { randomUUID } from "node:crypto";
import { Agent, request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { figures } from "../harness/campaigns.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import { type ShippedHaProxy, startShippedHaProxy } from "../harness/haproxy.ts";
import { withAuthorization } from "../harness/keyrun.ts";
import { unpackOldKeyrun } from "../harness/old-keyrun.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

/** Longer than HAProxy needs to see that `/readyz` fails. */
const drainDelayMs = 2_500;
/** Longer than any Keyrun without long runs let a run take. */
const longMs = 35_000;

const folders = createTempFolders();
let app: Awaited<ReturnType<typeof startScriptedApp>>;
let fleet: Fleet;
let haproxy: ShippedHaProxy;
let management: ReturnType<Fleet["manage"]>;
let value: string;

interface Answer {
  readonly status: number;
  readonly runId: string;
  readonly body: string;
}

function ask(method: "GET" | "POST", path: string, { agent, ...sent }: Sent = {}): Promise<Answer> {
  const headers = {
    authorization: `Bearer ${value}`,
    "content-type": "application/json",
    ...sent.headers,
  };
  return new Promise((resolve, reject) => {
    const asked = request(haproxy.url + path, { method, headers, ...(agent && { agent }) }, (answer) => {
      let body = "";
      answer.setEncoding("utf8").on("data", (piece: string) => {
        body += piece;
      });
      answer.on("end", () => {
        const { runId = "" } = body.startsWith("{") ? JSON.parse(body) : {};
        resolve({ status: answer.statusCode ?? 0, runId, body });
      });
    });
    asked.on("error", reject);
    asked.end(sent.text === undefined ? undefined : JSON.stringify({ text: sent.text }));
  });
}

interface Sent {
  readonly text?: string;
  readonly headers?: Record<string, string>;
  readonly agent?: Agent;
}

const preferring = { prefer: "respond-async" };

/** Runs with the preference until it is ended, half of them with a key that is repeated. */
function startLoad() {
  const failed: string[] = [];
  const counts = { "answered at once": 0, "accepted for later": 0, repeated: 0 };
  let isOver = false;
  async function runOnce(agent: Agent, withKey: boolean): Promise<void> {
    const text = `hello ${randomUUID()}`;
    const headers = { ...preferring, ...(withKey && { "idempotency-key": randomUUID() }) };
    const first = await ask("POST", "/api/apps/counted/run", { text, headers, agent });
    if (first.status !== 200 && first.status !== 202) throw new Error(`${first.status} ${first.body}`);
    counts[first.status === 200 ? "answered at once" : "accepted for later"] += 1;
    if (first.status === 202) {
      const { body } = await ask("GET", `/api/runs/${first.runId}?wait=30s`, { agent });
      if (!body.includes("RUN_STATE_SUCCEEDED")) throw new Error(body);
    }
    if (!withKey) return;
    const again = await ask("POST", "/api/apps/counted/run", { text, headers, agent });
    if (again.status !== 200 || again.runId !== first.runId) throw new Error(`repeat: ${again.body}`);
    counts.repeated += 1;
  }
  const lanes = Array.from({ length: 6 }, async (_, lane) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    while (!isOver) {
      await runOnce(agent, lane % 2 === 0).catch((thrown: unknown) => failed.push(String(thrown)));
      await pause(20);
    }
    agent.destroy();
  });
  return {
    counts,
    async end() {
      isOver = true;
      await Promise.all(lanes);
      return failed;
    },
  };
}

/** Stops and starts one member after the other, as a deploy does. */
async function deploy(): Promise<void> {
  for (const place of [0, 1] as const) {
    await fleet.members[place]!.stop();
    await fleet.members[place]!.start({ KEYRUN_DRAIN_MS_MAX: "60000" });
    await haproxy.until(place, "UP");
  }
}

describeFleet("processes")("two instances of a Keyrun without long runs, behind the balancer", () => {
  beforeAll(async () => {
    app = await startScriptedApp();
    const settings = { KEYRUN_PLAN_LIMITS: "free=100000", KEYRUN_DRAIN_DELAY_MS: `${drainDelayMs}` };
    fleet = await startFleet({ in: "processes", size: 2, started: false, settings });
    const before = unpackOldKeyrun(folders.create(), "test/process/BEFORE-LONG-RUNS");
    for (const member of fleet.members) await member.start({}, before);
    haproxy = await startShippedHaProxy(folders.create(), [fleet.members[0]!, fleet.members[1]!]);
    for (const place of [0, 1] as const) await haproxy.until(place, "UP");
    management = fleet.manage(1);
    await management.apps.createApp({ app: { id: "counted", backend: app.backend } });
    ({ value } = await management.newKey(await management.newTeam()));
  });
  afterAll(async () => {
    await haproxy?.close();
    await fleet?.close();
    await app?.close();
    folders.remove();
  });

  test("are upgraded under load with the preference: none fails, and no run is cut that was promised more", {
    timeout: 600_000,
  }, async () => {
    const load = startLoad();
    await pause(2_000);
    expect(load.counts).toMatchObject({ "accepted for later": 0 });
    await deploy();
    await expect.poll(() => load.counts["accepted for later"], { timeout: 30_000 }).toBeGreaterThan(0);

    const timeout = durationFromMs(120_000);
    await management.apps.updateApp({
      app: { id: "counted", timeout },
      updateMask: { paths: ["timeout"] },
    });
    const client = createClient(
      RunService,
      createGrpcTransport({ baseUrl: haproxy.url, interceptors: [withAuthorization(`Bearer ${value}`)] }),
    );
    const texts = ["REST", "gRPC", "background"].map((of) => `wait ${of} ${randomUUID()}`);
    const [rest = "", grpc = "", background = ""] = texts;
    const beganMs = performance.now();
    const waited = [
      ask("POST", "/api/apps/counted/run", { text: rest }),
      client.runApp({ appId: "counted", text: grpc }),
    ] as const;
    const later = await ask("POST", "/api/apps/counted/run", { text: background, headers: preferring });
    expect(later.status).toBe(202);
    await Promise.all(texts.map((text) => app.started(text)));
    // Whichever instance has them drains meanwhile.
    const deployed = deploy();
    await pause(longMs - (performance.now() - beganMs));
    for (const text of texts) app.release(text);
    expect((await waited[0]).body).toContain("released");
    expect((await waited[1]).text).toBe("released");
    await deployed;
    const { body } = await ask("GET", `/api/runs/${later.runId}?wait=30s`);
    expect(JSON.parse(body)).toMatchObject({ state: "RUN_STATE_SUCCEEDED", text: "released" });

    const failed = await load.end();
    figures("under load", { ...load.counts, failed: failed.length });
    // What an instance says that the machine starved proves nothing.
    const isBusy = (words: string) => words.includes("can't answer this now");
    expect(failed.filter((words) => !isBusy(words)).slice(0, 5)).toEqual([]);
    if (fleet.starvation().length === 0) expect(failed.slice(0, 5)).toEqual([]);
    expect([...app.all()].filter(([, starts]) => starts !== 1)).toEqual([]);
  });
});
