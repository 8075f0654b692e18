import { request } from "node:http";
import { expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { type Caller, connectCallers } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { rawSocket } from "../harness/raw-socket.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

const keyrun = closedAtEnd(await startKeyrun());
const rest = closedAtEnd(restCaller(keyrun.publicUrl));
const rpc = closedAtEnd((connectCallers.gRPC ?? restCaller)(keyrun.publicUrl));

/** How much each series grew while the work was done. */
async function grown(series: readonly string[], work: () => Promise<unknown>): Promise<number[]> {
  const read = () => Promise.all(series.map((each) => keyrun.metric(each)));
  const before = await read();
  await work();
  const after = await read();
  return after.map((value, index) => value - (before[index] ?? Number.NaN));
}

const run = (caller: Caller, value: string, appId = "echo", text = "x") =>
  caller.run({ appId, text, authorization: `Bearer ${value}` });

const reads = ["key", "team", "app"].map((entity) => `keyrun_store_reads_total{entity="${entity}"}`);

test("a key that was used before costs no read of the store, through any entry", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam(Plan.PRO));
  await run(rest, value);
  const series = [...reads, "keyrun_cached_key_hits_total"];
  const growth = await grown(series, async () => {
    for (let i = 0; i < 20; i++) {
      expect(await run(rest, value)).toMatchObject({ kind: "ok" });
      expect(await run(rpc, value)).toMatchObject({ kind: "ok" });
    }
  });
  expect(growth).toEqual([0, 0, 0, 40]);
});

const herd = 1_000;

test("many first requests with one key at once read it once", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE));
  const { hostname, port } = new URL(keyrun.publicUrl);
  const headers = { authorization: `Bearer ${value}`, "content-type": "application/json" };
  const [keyReads, teamReads] = await grown(reads, async () => {
    const statuses = await Promise.all(
      Array.from(
        { length: herd },
        () =>
          new Promise<number | undefined>((resolve, reject) => {
            const path = "/api/apps/echo/run";
            const sent = request(
              { hostname, port, path, method: "POST", headers, agent: false },
              (answer) => {
                answer.resume().on("end", () => resolve(answer.statusCode));
              },
            );
            sent.on("error", reject).end('{"text":"x"}');
          }),
      ),
    );
    expect(statuses).toEqual(Array.from({ length: herd }, () => 200));
  });
  // The team was cached when it was made.
  expect([keyReads, teamReads]).toEqual([1, 0]);
});

test("every answer is counted once, by entry and outcome", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam());
  const series = ["rest", "grpc"].flatMap((entry) => [
    `keyrun_requests_total{entry="${entry}",outcome="OK",status="200"}`,
    `keyrun_requests_total{entry="${entry}",outcome="INVALID_API_KEY",status="401"}`,
    `keyrun_requests_total{entry="${entry}",outcome="APP_NOT_FOUND",status="404"}`,
    `keyrun_requests_total{entry="${entry}",outcome="RATE_LIMIT_EXCEEDED",status="429"}`,
  ]);
  const growth = await grown([...series, "keyrun_limit_refusals_total"], async () => {
    for (const caller of [rest, rpc]) {
      await run(caller, "nonsense");
      await run(caller, value, "nowhere");
      for (let i = 0; i < 28; i++) await run(caller, value);
    }
    // 58 of 60 are spent.
    for (let i = 0; i < 4; i++) await run(rest, value);
    for (let i = 0; i < 3; i++) await run(rpc, value);
  });
  expect(growth).toEqual([30, 1, 1, 2, 28, 1, 1, 3, 5]);
});

test("input that never became a request is counted by the reason of its refusal", async () => {
  const outcomes = ["MALFORMED_REQUEST", "HEADERS_TOO_LARGE"];
  const series = outcomes.map(
    (outcome) =>
      `keyrun_requests_total{entry="rest",outcome="${outcome}",status="${outcome[0] === "M" ? 400 : 431}"}`,
  );
  const { port } = new URL(keyrun.publicUrl);
  const growth = await grown(series, async () => {
    for (const head of [
      "GET / HTTP/9\r\n",
      "GET / HTTP/1.1\r\n",
      `GET / HTTP/1.1\r\n${"X: a\r\n".repeat(70)}`,
    ]) {
      const client = rawSocket({ port: Number(port) });
      client.send(`${head}\r\n`);
      await client.closed();
    }
  });
  expect(growth).toEqual([2, 1]);
});

test("runs are counted while they run, and timed by how they ended", async () => {
  const app = await startScriptedApp();
  await keyrun.apps.createApp({ app: { id: "scripted", backend: app.backend } });
  const { value } = await keyrun.newKey(await keyrun.newTeam());
  const series = ["succeeded", "failed"].map((result) => `keyrun_run_seconds_count{result="${result}"}`);
  const growth = await grown(series, async () => {
    const running = [run(rest, value, "scripted", "wait"), run(rpc, value, "scripted", "wait")];
    await app.waits(2);
    expect(await keyrun.metric("keyrun_runs_running")).toBe(2);
    app.release();
    await Promise.all(running);
    await run(rest, value, "scripted", "fail");
    await run(rest, value);
  });
  expect(growth).toEqual([3, 1]);
  expect(await keyrun.metric("keyrun_runs_running")).toBe(0);
  await app.close();
});
