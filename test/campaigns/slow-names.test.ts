import { pbkdf2 } from "node:crypto";
import { lookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { serveGrpc } from "../harness/app-backends.ts";
import { timeFigures } from "../harness/campaigns.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { startNameServer } from "../harness/name-server.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

const here = [{ address: "127.0.0.1", ttlS: 30 }];
const silentRuns = 24;

const names = await startNameServer({
  "app.example": here,
  "grpc.example": here,
  "silent.example": "silent",
});
const app = closedAtEnd(await startScriptedApp());
const grpcApp = await serveGrpc((call, answer) =>
  answer(null, { text: call.request.text?.toUpperCase() ?? "" }),
);
const keyrun = closedAtEnd(
  await startKeyrun({ nameFiles: names.files({ hosts: "127.0.0.1 listed.example" }) }),
);
const { port } = new URL(app.url);
const http = (host: string) => ({ case: "http", value: { url: `http://${host}:${port}/run` } }) as const;
const grpc = (host: string) =>
  ({ case: "grpc", value: { target: `${host}:${grpcApp.port}`, tls: false } }) as const;
const kinds = {
  local: http("localhost"),
  listed: http("listed.example"),
  named: http("app.example"),
  "named-grpc": grpc("grpc.example"),
  missing: http("missing.example"),
  "missing-grpc": grpc("missing.example"),
  silent: http("silent.example"),
  "silent-grpc": grpc("silent.example"),
};
for (const [id, kind] of Object.entries(kinds)) {
  await keyrun.apps.createApp({ app: { id, backend: { kind } } });
}
// As many silent names as runs, so that nothing is joined.
for (let at = 0; at < silentRuns; at += 1) {
  names.set(`silent-${at}.example`, "silent");
  const kind = at % 2 === 0 ? http(`silent-${at}.example`) : grpc(`silent-${at}.example`);
  await keyrun.apps.createApp({ app: { id: `silent-${at}`, backend: { kind } } });
}

afterAll(async () => {
  await grpcApp[Symbol.asyncDispose]();
  await names[Symbol.asyncDispose]();
});

const newKey = async () => (await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE))).value;
const outcomeOf = ({ status, body }: { status: number; body: string }) =>
  status === 200 ? JSON.parse(body).text : `${status} ${JSON.parse(body).error.code}`;

test.each(["local", "listed", "named", "named-grpc"])(
  "the app %s is found by the name of its host",
  async (appId) => {
    const outcome = outcomeOf(
      await restRun(keyrun.publicUrl, { value: await newKey(), appId, text: "hello" }),
    );
    expect(outcome).toBe("HELLO");
  },
);

test.each(["missing", "missing-grpc"])(
  "the app %s is unreachable: its host has no address",
  async (appId) => {
    const value = await newKey();
    expect(outcomeOf(await restRun(keyrun.publicUrl, { value, appId }))).toBe("503 app_unreachable");
    const line = keyrun.logLines.findLast((each) => each.includes("APP_UNREACHABLE"));
    expect(JSON.parse(line!).cause).toMatch(/^.*ENOTFOUND missing\.example.*$/);
  },
);

describe.each([
  ["of one HTTP app", () => "silent"],
  ["of one gRPC app", () => "silent-grpc"],
  ["of as many apps", (at: number) => `silent-${at}`],
])(`while ${silentRuns} runs %s wait for a silent name server`, (_, appOf) => {
  test("another team's apps, files, crypto and other look-ups go on, and the runs end as unreachable", async () => {
    const [value, other] = [await newKey(), await newKey()];
    let ended = 0;
    const startMs = performance.now();
    const waiting = Array.from({ length: silentRuns }, async (_each, at) => {
      const outcome = outcomeOf(await restRun(keyrun.publicUrl, { value, appId: appOf(at) }));
      ended += 1;
      return { outcome, ms: performance.now() - startMs };
    });
    // The name server has been asked, and does not answer.
    const askedBefore = names.asked.length;
    await expect.poll(() => names.asked.length, { interval: 1 }).toBeGreaterThan(askedBefore);

    for (const appId of ["local", "listed", "named", "named-grpc"]) {
      const run = await restRun(keyrun.publicUrl, { value: other, appId, text: "hello" });
      expect(outcomeOf(run)).toBe("HELLO");
    }
    await promisify(pbkdf2)("password", "salt", 1, 32, "sha256");
    await readFile("package.json");
    await lookup("localhost");
    expect(ended).toBe(0);

    const ends = await Promise.all(waiting);
    timeFigures(
      "runs whose name server is silent ended after",
      ends.map(({ ms }) => ms),
    );
    for (const { outcome } of ends) {
      expect(outcome).toBe("503 app_unreachable");
    }
  });
});
