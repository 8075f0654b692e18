import { context, type Span, trace } from "@opentelemetry/api";
import { NodeSDK, tracing } from "@opentelemetry/sdk-node";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import { openSharedLimiter } from "#src/limit/redis/open-limiter.ts";
import type { SharedLimiter } from "#src/limit/redis/shared-limiter.ts";
import { createLimitSpans } from "#src/traces/limit-spans.ts";
import { fleetOfRedis } from "../harness/fleet-of-redis.ts";
import { describeOnRedis, type RedisServer, startRedis } from "../harness/redis-server.ts";

describeOnRedis("the limit that instances share, traced", () => {
  const exporter = new tracing.InMemorySpanExporter();
  const sdk = new NodeSDK({
    autoDetectResources: false,
    spanProcessors: [new tracing.SimpleSpanProcessor(exporter)],
  });
  const tracer = trace.getTracer("test");
  let redis: RedisServer;
  let limiter: SharedLimiter;

  beforeAll(async () => {
    sdk.start();
    redis = await startRedis();
    const spans = createLimitSpans(tracer);
    const shared = await openSharedLimiter({
      redisUrl: redis.url,
      fleet: fleetOfRedis(),
      fallback: "share",
      clock: systemClock,
      sharePlace: () => undefined,
      windowMs: 60_000,
      events: { modeChanged: () => {} },
      wrap: (open) => async (lost) => spans.logs(await open(lost)),
    });
    limiter = spans.limiter(shared);
  });

  afterAll(async () => {
    limiter.close();
    await redis.kill();
    await sdk.shutdown();
  });

  beforeEach(() => exporter.reset());

  /** Spends as a request does that has a span. */
  function spendAs(request: Span, teamId: string) {
    const own = trace.setSpan(context.active(), request);
    return context.with(own, () => limiter.spend(teamId, 100, 1));
  }

  const named = (name: string) => exporter.getFinishedSpans().filter((span) => span.name === name);
  const ids = (spans: readonly { spanContext(): { spanId: string } }[]) =>
    spans.map((span) => span.spanContext().spanId);

  test("one call of Redis is a child of the first request, and has links to the others", async () => {
    const requests = ["a", "b", "c"].map((name) => tracer.startSpan(name, { root: true }));
    const rates = await Promise.all(requests.map((request, n) => spendAs(request, `team-${n % 2}`)));
    expect(rates.map(({ accepted }) => accepted)).toEqual([true, true, true]);
    const spends = named("spend limit");
    const parents = spends.map(({ parentSpanContext }) => parentSpanContext?.spanId);
    expect(parents.toSorted()).toEqual(ids(requests).toSorted());
    const [call, ...others] = named("EVALSHA");
    expect(others).toEqual([]);
    expect(call?.attributes).toMatchObject({ "db.system.name": "redis", "db.operation.name": "EVALSHA" });
    const told = [call?.parentSpanContext?.spanId, ...(call?.links ?? []).map((link) => link.context.spanId)];
    expect(told).toHaveLength(3);
    expect(told.toSorted()).toEqual(ids(spends).toSorted());
    const first = spends.find(({ parentSpanContext }) => parentSpanContext?.spanId === ids(requests)[0]);
    expect(told[0]).toBe(first?.spanContext().spanId);
  });

  test("a later call names none of the requests of an earlier one", async () => {
    for (const name of ["a", "b"]) await spendAs(tracer.startSpan(name, { root: true }), "team");
    const calls = named("EVALSHA");
    expect(calls.map(({ links }) => links.length)).toEqual([0, 0]);
    expect(new Set(calls.map((call) => call.spanContext().traceId)).size).toBe(2);
  });

  test("a spend for no request has no span", async () => {
    expect(await limiter.spend("team", 100, 1)).toMatchObject({ accepted: true });
    expect(exporter.getFinishedSpans()).toEqual([]);
  });
});
