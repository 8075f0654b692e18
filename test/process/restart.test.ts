import { expect, test } from "vitest";
import { keyrunPlaces, kill, stop } from "../harness/keyrun-places.ts";
import { restRun, type ServingKeyrun } from "../harness/keyrun-process.ts";

const { place: placeOn } = keyrunPlaces();
const limit = 60;

test("a restart begins a new minute, after a clean stop as after a kill, and a clean stop keeps last uses", {
  timeout: 300_000,
}, async () => {
  const place = placeOn();
  const spendAll = async ({ publicUrl }: ServingKeyrun) => {
    for (let n = 0; n < limit; n++) expect((await restRun(publicUrl, { value })).status).toBe(200);
    expect((await restRun(publicUrl, { value })).status).toBe(429);
  };
  const first = await place.start();
  const value = await place.newKey();
  await spendAll(first);
  const afterSeconds = Date.now() / 1_000;
  await stop(first);

  const second = await place.start();
  const list = await place.command(["keys", "list", "--team", "demo", "--json"]);
  const [key] = JSON.parse(list.stdout).keys;
  expect(Date.parse(key.lastUseTime)).toBeLessThanOrEqual(Math.ceil(afterSeconds * 1_000));
  await spendAll(second);
  await kill(second);
  await spendAll(await place.start());
});
