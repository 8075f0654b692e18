import { randomUUID } from "node:crypto";
import { Agent, request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RunState } from "#gen/keyrun/v1/run_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { campaignSize, figures, timeFigures } from "../harness/campaigns.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import { type ShippedHaProxy, startShippedHaProxy } from "../harness/haproxy.ts";
import { withAuthorization } from "../harness/keyrun.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

/** How long a run in the background takes; one that is waited for takes three fifths of it. */
const backgroundS = campaignSize("long-runs");
const waitedS = Math.floor(0.6 * backgroundS);
const cancels = 50;

const folders = createTempFolders();
let app: Awaited<ReturnType<typeof startScriptedApp>>;
let fleet: Fleet;
let haproxy: ShippedHaProxy;
let value: string;

/** Node's fetch would give up after five minutes. */
function post(url: string, text: string, headers: Record<string, string> = {}, agent?: Agent) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const own = { authorization: `Bearer ${value}`, "content-type": "application/json", ...headers };
    const sent = request(url, { method: "POST", headers: own, ...(agent && { agent }) }, (answer) => {
      let body = "";
      answer.setEncoding("utf8").on("data", (piece: string) => {
        body += piece;
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body }));
    });
    sent.on("error", reject);
    sent.end(JSON.stringify({ text }));
  });
}

describeFleet("processes")("two instances behind the balancer of compose.yaml", () => {
  beforeAll(async () => {
    app = await startScriptedApp();
    fleet = await startFleet({ in: "processes", size: 2, settings: { KEYRUN_PLAN_LIMITS: "free=100000" } });
    haproxy = await startShippedHaProxy(folders.create(), [fleet.members[0]!, fleet.members[1]!]);
    for (const place of [0, 1] as const) await haproxy.until(place, "UP");
    const management = fleet.manage(1);
    await management.apps.createApp({
      app: {
        ...{ id: "late", backend: app.backend },
        ...{ timeout: durationFromMs(600_000), backgroundTimeout: durationFromMs(3_600_000) },
      },
    });
    ({ value } = await management.newKey(await management.newTeam()));
  });
  afterAll(async () => {
    await haproxy?.close();
    await fleet?.close();
    await app?.close();
    folders.remove();
  });

  const clientOf = (baseUrl: string) =>
    createClient(
      RunService,
      createGrpcTransport({ baseUrl, interceptors: [withAuthorization(`Bearer ${value}`)] }),
    );

  test(`a run of ${backgroundS} s in the background, and one of ${waitedS} s that is waited for, end well over REST and gRPC, beside other load`, {
    timeout: 120_000 + 2 * backgroundS * 1_000,
  }, async () => {
    const url = `${haproxy.url}/api/apps/late/run`;
    const client = clientOf(haproxy.url);
    const textOf = (of: string) => `wait ${of} ${randomUUID()}`;
    const [restText, grpcText] = [textOf("rest"), textOf("grpc")];
    const waited = [post(url, restText), client.runApp({ appId: "late", text: grpcText })] as const;
    const [restLater, grpcLater] = [textOf("rest"), textOf("grpc")];
    const accepted = await post(url, restLater, { prefer: "respond-async" });
    expect(accepted.status).toBe(202);
    const { runId } = JSON.parse(accepted.body) as { runId: string };
    const { run } = await client.startRun({ appId: "late", text: grpcLater });

    let [served, failed, isOver] = [0, 0, false];
    const agent = new Agent({ keepAlive: true, maxSockets: 4 });
    const load = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        const { status } = await post(`${haproxy.url}/api/apps/echo/run`, "x", {}, agent);
        if (status === 200) served += 1;
        else failed += 1;
        await pause(20);
      }
    });
    await pause(waitedS * 1_000);
    for (const text of [restText, grpcText]) app.release(text);
    const [rest, grpc] = await Promise.all(waited);
    expect([rest.status, JSON.parse(rest.body), grpc.text]).toEqual([
      ...[200, expect.objectContaining({ text: "released" }), "released"],
    ]);
    await pause((backgroundS - waitedS) * 1_000);
    for (const id of [runId, run!.runId]) {
      expect((await client.getRun({ runId: id })).run?.state).toBe(RunState.RUNNING);
    }
    for (const text of [restLater, grpcLater]) app.release(text);
    for (const id of [runId, run!.runId]) {
      const ended = await client.getRun({ runId: id, wait: durationFromMs(50_000) });
      expect(ended.run).toMatchObject({ state: RunState.SUCCEEDED, text: "released" });
    }
    isOver = true;
    await Promise.all(load);
    agent.destroy();
    figures("beside them", { "runs of echo": served, failed });
    expect([...app.all()].filter(([, starts]) => starts !== 1)).toEqual([]);
    expect(failed).toBe(0);
  });

  test(`${cancels} runs that another instance cancels: the app's call is closed soon after the answer`, async () => {
    const [one, other] = fleet.members.map(({ publicUrl }) => clientOf(publicUrl));
    const closedMs: number[] = [];
    for (let n = 0; n < cancels; n += 1) {
      const text = `wait ${randomUUID()}`;
      const { run } = await one!.startRun({ appId: "late", text });
      await app.started(text);
      const cancelled = await other!.cancelRun({ runId: run!.runId });
      expect(cancelled.run?.state).toBe(RunState.CANCELLED);
      const answeredMs = performance.now();
      while (app.isWaiting(text)) await pause(1);
      closedMs.push(performance.now() - answeredMs);
      expect((await one!.getRun({ runId: run!.runId })).run?.state).toBe(RunState.CANCELLED);
    }
    timeFigures("answer to the end of the app's call", closedMs);
  });
});
