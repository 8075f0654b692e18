import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { freePort } from "../harness/free-port.ts";
import { keyrunPlaces, stop } from "../harness/keyrun-places.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { otlpSettings, startOtlpReceiver } from "./otlp-receiver.ts";

// What a span says, `test/traces/spans.test.ts` decides.

const { place: placeOn } = keyrunPlaces();
/** Exactly as the page for operators says. */
const traced = { NODE_OPTIONS: "--import ./examples/tracing.mjs" };

const otlp = closedAtEnd(await startOtlpReceiver());

test("with the SDK of the page for operators spans are exported, the last ones before the process ends, and a log line names its trace", async () => {
  // The SDK alone would export them in a minute.
  const place = placeOn({ ...otlp.settings, OTEL_BSP_SCHEDULE_DELAY: "60000", KEYRUN_LOG_LEVEL: "debug" });
  const keyrun = await place.start(traced, ["./keyrun", "serve"]);
  const value = await place.newKey();
  const traceId = randomBytes(16).toString("hex");
  const spanId = randomBytes(8).toString("hex");
  const post = (path: string) =>
    fetch(`${keyrun.publicUrl}${path}`, {
      method: "POST",
      headers: { traceparent: `00-${traceId}-${spanId}-01`, authorization: `Bearer ${value}` },
      body: '{"text":"the text that no span may have"}',
    });
  for (const path of [
    "/api/apps/absent/run",
    `/api/apps/absent/run?key=${value}`,
    `/${keyrun.serviceToken()}`,
  ])
    await (await post(path)).text();
  await stop(keyrun);
  const lines = keyrun.stderr().split("\n");
  const line = lines.find((each) => each.includes(traceId) && each.includes("APP_NOT_FOUND"));
  expect(JSON.parse(line ?? "")).toMatchObject({ reason: "APP_NOT_FOUND", trace_id: traceId });
  const served = otlp.spans().filter((span) => span.traceId === traceId && span.parentSpanId === spanId);
  expect(served.map(({ name }) => name)).toEqual([...Array(2).fill("POST /api/apps/{app_id}/run"), "POST"]);
  for (const secret of [value.split(".")[1], keyrun.serviceToken(), "the text that no span may have"])
    expect(otlp.bytes()).not.toContain(secret);
});

test("a receiver that is down disturbs no run, and does not hold up the end", async () => {
  const place = placeOn(otlpSettings(`http://127.0.0.1:${await freePort()}`));
  const lonely = await place.start(traced, ["./keyrun", "serve"]);
  const value = await place.newKey();
  for (let n = 0; n < 40; n++) expect((await restRun(lonely.publicUrl, { value })).status).toBe(200);
  await stop(lonely);
});
