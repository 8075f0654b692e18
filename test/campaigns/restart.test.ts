import { MongoClient } from "mongodb";
import { afterAll, afterEach, expect, test } from "vitest";
import {
  type KeyrunProcess,
  type ServingKeyrun,
  type Settings,
  servedCommand,
  servedRun,
  serveKeyrun,
} from "../harness/keyrun-process.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
const databases = createMongoDatabases();
const running: KeyrunProcess[] = [];

afterEach(async () => {
  for (const each of running.splice(0)) {
    each.kill("SIGKILL");
    await each.exited;
  }
});
afterAll(async () => {
  folders.remove();
  await databases.drop();
});

const limit = 60;

/** A place that a Keyrun can be started on again and again, with the team `acme` and a key. */
async function openPlace(settings: Settings) {
  const dataDir = folders.create();
  const start = async () => {
    const keyrun = await serveKeyrun(dataDir, settings);
    running.push(keyrun);
    return keyrun;
  };
  const first = await start();
  const command = async (args: string[]) => {
    const outcome = await servedCommand({ KEYRUN_DATA_DIR: dataDir, ...settings }, args);
    expect(outcome.code).toBe(0);
    return outcome.stdout.trim();
  };
  await command(["teams", "create", "acme"]);
  const value = await command(["keys", "create", "--team", "acme"]);
  return { first, start, value };
}

async function spendAll({ publicUrl }: ServingKeyrun, value: string): Promise<void> {
  for (let n = 0; n < limit; n++) expect((await servedRun(publicUrl, { value })).status).toBe(200);
  expect((await servedRun(publicUrl, { value })).status).toBe(429);
}

async function stop(keyrun: ServingKeyrun): Promise<void> {
  keyrun.kill("SIGTERM");
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
}

/** `afterKill` removes what keeps the next start waiting. */
function restartTests(places: () => { settings: Settings; afterKill?: () => Promise<unknown> }): void {
  test("after a clean stop the requests of the running minute still count, and the headers are true", async () => {
    const { first, start, value } = await openPlace(places().settings);
    const beforeSeconds = Date.now() / 1_000;
    await spendAll(first, value);
    const afterSeconds = Date.now() / 1_000;
    await stop(first);
    const refused = await servedRun((await start()).publicUrl, { value });
    expect(refused.status).toBe(429);
    expect(refused.headers.get("ratelimit-limit")).toBe(String(limit));
    expect(refused.headers.get("ratelimit-remaining")).toBe("0");
    // The first of the accepted requests leaves after 60 s, wherever the restart was.
    const resetSeconds = Number(refused.headers.get("ratelimit-reset"));
    expect(resetSeconds).toBeGreaterThanOrEqual(Math.floor(beforeSeconds) + 60);
    expect(resetSeconds).toBeLessThanOrEqual(Math.ceil(afterSeconds) + 61);
    const waitMs = Number(refused.headers.get("retry-after-ms"));
    expect(waitMs).toBeLessThan(60_000);
    expect(Math.ceil(waitMs / 1_000)).toBe(Number(refused.headers.get("retry-after")));
  });

  test("a stop and a start that follow at once take the window on, too", async () => {
    const { first, start, value } = await openPlace(places().settings);
    await spendAll(first, value);
    await stop(first);
    await stop(await start());
    expect((await servedRun((await start()).publicUrl, { value })).status).toBe(429);
  });

  test("after a kill the window is empty, also where an earlier clean stop had kept one", async () => {
    const { settings, afterKill } = places();
    const { first, start, value } = await openPlace(settings);
    await spendAll(first, value);
    await stop(first);
    const second = await start();
    expect((await servedRun(second.publicUrl, { value })).status).toBe(429);
    second.kill("SIGKILL");
    await second.exited;
    await afterKill?.();
    await spendAll(await start(), value);
  });
}

describeWith(mongodbMissing)("on MongoDB", () => {
  restartTests(() => {
    const uri = databases.createUri();
    return {
      settings: { KEYRUN_MONGODB_URI: uri, KEYRUN_SECRET: Buffer.alloc(32, 7).toString("base64url") },
      async afterKill() {
        // Otherwise the next start waits until the lease of the killed instance has lapsed.
        const client = await new MongoClient(uri).connect();
        await client.db().collection("control").deleteMany({});
        await client.close();
      },
    };
  });
});
