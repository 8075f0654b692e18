import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { manage } from "../harness/keyrun.ts";
import { restRun, type ServingKeyrun, serveKeyrun } from "../harness/keyrun-process.ts";
import { residentMemory } from "../harness/resident-memory.ts";

const keys = campaignSize("keys-in-use");
const keysOfTeam = 50;
/** What the garbage collector leaves to chance. */
const growthMegabytesMax = 40;
const folders = tempFolders();

test(`${keys} keys that are in use take about 2 KB each, whatever is run between their uses`, {
  timeout: 300_000 + 60 * keys,
}, async () => {
  const dataDir = folders.create();
  await using app = await serveApp();
  const maker = await serveKeyrun(dataDir);
  const [hot = "", ...values] = await makeKeys(maker, app.url);
  maker.kill("SIGTERM");
  await maker.exited;

  // A start knows none of them.
  const keyrun = await serveKeyrun(dataDir, { KEYRUN_PLAN_LIMITS: "free=100000" });
  const run = async (value: string) => {
    const text = "x".repeat(16_000);
    const { status, body } = await restRun(keyrun.publicUrl, { value, appId: "web", text });
    if (status !== 200) throw new Error(body);
  };
  for (let runs = 0; runs < 3_000; runs += 1) await run(hot);
  const before = residentMemory(keyrun.pid).now;
  for (const value of values) {
    await run(value);
    for (let runs = 0; runs < 4; runs += 1) await run(hot);
  }
  const after = residentMemory(keyrun.pid).now;
  figure("before", before, "MB");
  figure("after", after, "MB");
  expect(after - before).toBeLessThan(growthMegabytesMax + 0.002 * keys);
  keyrun.kill("SIGKILL");
  await keyrun.exited;
});

async function makeKeys(keyrun: ServingKeyrun, url: string): Promise<string[]> {
  const management = manage(keyrun.internalUrl, keyrun.serviceToken());
  const backend = { kind: { case: "http", value: { url } } } as const;
  await management.apps.createApp({ app: { id: "web", backend } });
  const values: string[] = [];
  let team = "";
  while (values.length <= keys) {
    if (values.length % keysOfTeam === 0) team = await management.newTeam(Plan.FREE);
    values.push((await management.newKey(team)).value);
  }
  management.disconnect();
  return values;
}

/** The server of an app, which answers once it has read the text. */
async function serveApp() {
  const server = createServer((request, response) => {
    request.resume().once("end", () => response.end('{"text":"done"}'));
  }).listen(0, "127.0.0.1");
  await new Promise((listening) => server.once("listening", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}
