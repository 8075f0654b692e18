import { randomBytes } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { createKeyForm } from "#src/keys/key-value.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { openFleetCaller } from "../harness/fleet-caller.ts";
import { keyrunCommand, restRun, serveKeyrun } from "../harness/keyrun-process.ts";
import { residentMemory } from "../harness/resident-memory.ts";

/** Ten times what the cache of unknown ids holds. */
const unknownIds = campaignSize("unknown-keys");
const heapMegabytes = 128;
/** What the garbage collector leaves to chance. */
const growthMegabytesMax = 40;
const atOnce = 64;

const folders = tempFolders();
const secret = randomBytes(32);

const keyrun = await serveKeyrun(folders.create(), {
  KEYRUN_SECRET: secret.toString("base64url"),
  NODE_OPTIONS: `--max-old-space-size=${heapMegabytes}`,
});

afterAll(async () => {
  keyrun.kill("SIGKILL");
  await keyrun.exited;
});

test(`with a heap of ${heapMegabytes} MB, ${unknownIds} keys that are in no store leave the memory where it was`, {
  timeout: 180_000 + unknownIds,
}, async () => {
  const form = createKeyForm("svc", createServiceSecrets([secret]));
  const made = await keyrunCommand({ KEYRUN_DATA_DIR: keyrun.dataDir }, ["keys", "create", "--team", "demo"]);
  const caller = openFleetCaller({ ...keyrun, serviceToken: keyrun.serviceToken() });
  let left = unknownIds;
  const verify = async (until: number) => {
    while (left > until) {
      left -= 1;
      const { body } = await caller.use("verify", form.mint(randomBytes).value);
      if (!body.includes("VERDICT_INVALID")) throw new Error(body);
    }
  };
  const spend = (until: number) => Promise.all(Array.from({ length: atOnce }, () => verify(until)));
  await spend(unknownIds * 0.7);
  const early = residentMemory(keyrun.pid).peak;
  await spend(0);
  const late = residentMemory(keyrun.pid).peak;
  caller.close();
  figure("after three tenths of the ids", early, "MB");
  figure("after all", late, "MB");
  expect(late - early).toBeLessThan(growthMegabytesMax);
  expect((await restRun(keyrun.publicUrl, { value: made.stdout.trim() })).status).toBe(200);
});
