import { context, trace } from "@opentelemetry/api";
import { NodeSDK, tracing } from "@opentelemetry/sdk-node";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { readBackend } from "#src/apps/app-fields.ts";
import { fail } from "#src/refusal/refusal.ts";
import type { Run, Runner } from "#src/run/runner.ts";
import { traceRuns } from "#src/traces/app-spans.ts";
import { appOn, openAppRunner, runOf } from "../harness/app-backends.ts";

const exporter = new tracing.InMemorySpanExporter();
const sdk = new NodeSDK({
  autoDetectResources: false,
  spanProcessors: [new tracing.SimpleSpanProcessor(exporter)],
});
const tracer = trace.getTracer("test");
const { traceOf } = openAppRunner();

beforeAll(() => sdk.start());
afterAll(() => sdk.shutdown());
beforeEach(() => exporter.reset());

/** Runs an app as a request does that has a span. */
function runInRequest(run: Runner, target: string, facts: Partial<Run> = {}) {
  const value = { $typeName: "keyrun.v1.GrpcBackend", target, tls: false } as const;
  const message = { $typeName: "keyrun.v1.AppBackend", kind: { case: "grpc", value } } as const;
  const order = runOf(appOn(readBackend(message, undefined)), facts);
  const request = trace.setSpan(context.active(), tracer.startSpan("request", { root: true }));
  return context.with(request, () => traceRuns({ run, traceOf }, tracer)(order));
}

test.each([
  ["worker.1:9001", "worker.1", 9_001],
  ["1.2.3.400:80", "1.2.3.400", 80],
  ["a..b:443", "a..b", 443],
  ["_dns_.host:1", "_dns_.host", 1],
  ["[::1]:9001", "[::1]", 9_001],
  ["[1:2]:65535", "[1:2]", 65_535],
  ["127.0.0.1:9001", "127.0.0.1", 9_001],
])("each target that an app may have can be run: %s", async (target, address, port) => {
  expect(await runInRequest(() => Promise.resolve({ text: "x" }), target)).toEqual({ text: "x" });
  const [span] = exporter.getFinishedSpans();
  expect(span?.attributes).toMatchObject({ "server.address": address, "server.port": port });
});

test("a traced run still knows how long its caller waits", async () => {
  const run: Runner = async ({ callerMsLeft }) => ({ text: String(callerMsLeft?.()) });
  expect(await runInRequest(run, "127.0.0.1:9001", { callerMsLeft: () => 1_500 })).toEqual({ text: "1500" });
});

test("a run in the background stays one, and its span has a trace of its own that links to the request", async () => {
  const run: Runner = async ({ isBackground }) => ({ text: String(isBackground) });
  expect(await runInRequest(run, "127.0.0.1:9001", { isBackground: true })).toEqual({ text: "true" });
  expect(await runInRequest(run, "127.0.0.1:9001")).toEqual({ text: "false" });
  const [background, waited] = exporter.getFinishedSpans();
  expect(background?.parentSpanContext).toBeUndefined();
  expect(background?.links).toHaveLength(1);
  expect(background?.links[0]?.context.traceId).not.toBe(background?.spanContext().traceId);
  expect(waited?.parentSpanContext).toBeDefined();
  expect(waited?.links).toEqual([]);
});

test("the span of a call that fails at once has ended", async () => {
  const refusal = fail("APP_UNREACHABLE");
  const run = () => {
    throw refusal;
  };
  await expect(runInRequest(run, "127.0.0.1:9001")).rejects.toBe(refusal);
  const [span] = exporter.getFinishedSpans();
  expect(span?.attributes).toMatchObject({ "error.type": "app_unreachable" });
});
