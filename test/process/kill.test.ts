import { expect, onTestFinished, test } from "vitest";
import { campaignSize } from "../harness/campaigns.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { inFolder, keyWriter, killAndCheck } from "../harness/kills.ts";
import { queryStore } from "../harness/stored-bytes.ts";
import { until } from "../harness/until.ts";

const cycles = campaignSize("kills");

test(`kill -9 loses no acknowledged creation or revocation of a key, ${cycles} times over`, {
  timeout: 180_000 + cycles * 20_000,
}, async () => {
  const writer = keyWriter();
  await killAndCheck(inFolder({ KEYRUN_KEYS_PER_TEAM_MAX: "10000" }), writer, cycles);
  const { "creations acknowledged": created, "revocations acknowledged": revoked } = writer.figures();
  expect(created).toBeGreaterThan(20 * cycles);
  expect(revoked).toBeGreaterThan(10 * cycles);
});

test("a use of a key is soon in the store without a stop, and survives kill -9", async () => {
  const place = inFolder();
  onTestFinished(place.close);
  const first = await place.startOne();
  const { key, value } = await first.manager.keys.createKey({ teamId: "demo" });
  await restRun(first.publicUrl, { value });
  const [used] = (await first.manager.keys.listKeys({ teamId: "demo" })).keys;
  expect(used?.lastUseTime).toBeDefined();
  await until(async () => {
    const [row] = await queryStore(place.path, `SELECT * FROM keys WHERE id = '${key?.id}'`);
    return row?.last_use_time_ms !== null;
  });
  await place.kill();
  const second = await place.startOne();
  const [kept] = (await second.manager.keys.listKeys({ teamId: "demo" })).keys;
  expect(kept?.lastUseTime).toEqual(used?.lastUseTime);
});
