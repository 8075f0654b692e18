import { createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { keyrunPlaces, kill, stop } from "../harness/keyrun-places.ts";
import { restRun, type ServingKeyrun } from "../harness/keyrun-process.ts";

const { place: placeOn } = keyrunPlaces();
const limit = 60;

test("a clean stop keeps last uses, and the requests of the running minute for the next start that serves, and a kill does not", {
  timeout: 300_000,
}, async () => {
  const place = placeOn();
  const spendAll = async ({ publicUrl }: ServingKeyrun) => {
    for (let n = 0; n < limit; n++) expect((await restRun(publicUrl, { value })).status).toBe(200);
    expect((await restRun(publicUrl, { value })).status).toBe(429);
  };
  const first = await place.start();
  const value = await place.newKey();
  const beforeSeconds = Date.now() / 1_000;
  await spendAll(first);
  const afterSeconds = Date.now() / 1_000;
  await stop(first);

  // A start that is refused after it took the window up leaves it to the next one.
  const taken = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void taken.close());
  await new Promise((resolve) => taken.once("listening", resolve));
  const { port } = taken.address() as { port: number };
  const refusedStart = place.spawn({ KEYRUN_PORT: `${port}` });
  expect(await refusedStart.exited).toEqual({ code: 1, signal: null });
  expect(refusedStart.stderr()).toMatch(
    `Keyrun can't start: 127.0.0.1:${port} is already in use: set KEYRUN_PORT to a free port`,
  );

  const second = await place.start();
  const list = await place.command(["keys", "list", "--team", "demo", "--json"]);
  const [key] = JSON.parse(list.stdout).keys;
  expect(Date.parse(key.lastUseTime)).toBeLessThanOrEqual(Math.ceil(afterSeconds * 1_000));
  const refused = await restRun(second.publicUrl, { value });
  expect(refused.status).toBe(429);
  expect(refused.headers.get("ratelimit-limit")).toBe(`${limit}`);
  expect(refused.headers.get("ratelimit-remaining")).toBe("0");
  // The first of the accepted requests leaves after 60 s, wherever the restart was.
  const resetSeconds = Number(refused.headers.get("ratelimit-reset"));
  expect(resetSeconds).toBeGreaterThanOrEqual(Math.floor(beforeSeconds) + 60);
  expect(resetSeconds).toBeLessThanOrEqual(Math.ceil(afterSeconds) + 61);
  const waitMs = Number(refused.headers.get("retry-after-ms"));
  expect(waitMs).toBeLessThan(60_000);
  expect(Math.ceil(waitMs / 1_000)).toBe(Number(refused.headers.get("retry-after")));

  await kill(second);
  await spendAll(await place.start());
});
