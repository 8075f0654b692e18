import { trace } from "@opentelemetry/api";
import { NodeSDK, tracing } from "@opentelemetry/sdk-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import { watchRequests } from "#src/http/request-notes.ts";
import { createRedaction } from "#src/log/redaction.ts";
import { createServerSpans } from "#src/traces/server-spans.ts";

const exporter = new tracing.InMemorySpanExporter();
const sdk = new NodeSDK({
  autoDetectResources: false,
  spanProcessors: [new tracing.SimpleSpanProcessor(exporter)],
});

beforeAll(() => sdk.start());
afterAll(() => sdk.shutdown());

/** The path that the span of a request has. */
function pathInSpan(target: string): unknown {
  exporter.reset();
  const spans = createServerSpans({
    tracer: trace.getTracer("test"),
    nameRoute: () => undefined,
    redact: createRedaction("svc", []),
  });
  const watch = watchRequests([spans], {
    monotonicMs: systemClock.monotonicMs,
    onFault: (thrown) => expect.fail(String(thrown)),
  });
  const head = { method: "GET", target, httpVersion: "1.1", rawHeaders: [], peer: "127.0.0.1" };
  const notes = watch?.begun(head, "rest");
  if (notes) watch?.ended(notes, 404);
  expect(exporter.getFinishedSpans()).toHaveLength(1);
  return exporter.getFinishedSpans()[0]?.attributes["url.path"];
}

test("of a long path, a span reads the start only, however much of it is cut as secret", () => {
  const segment = `/${"zQ9".repeat(21)}`;
  expect(pathInSpan(segment.repeat(200))).toBe("/…".repeat(16));
  expect(pathInSpan(`/${"a/".repeat(8_000)}`)).toBe(`/${"a/".repeat(128)}`.slice(0, 256));
});

test("a path that is cut within a key has no part of the key's secret", () => {
  const secret = "QqZz7".repeat(10).slice(0, 49);
  for (let before = 930; before < 1_030; before += 1) {
    // Redaction cuts the long word, so the key moves to the start.
    const path = pathInSpan(`/${"zQ9".repeat(350).slice(0, before)}/${secret}/x`);
    expect(path).toMatch(/^\/…/);
    expect(path).not.toContain("QqZ");
  }
});
