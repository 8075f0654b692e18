import { type Tracer, trace } from "@opentelemetry/api";
import type { Runner, StreamRunner } from "../run/runner.ts";
import type { Stores } from "../store/stores.ts";
import { traceRuns, traceStreams } from "./app-spans.ts";
import { createLimitSpans, type LimitSpans } from "./limit-spans.ts";
import { createServerSpans, type ServerSpans, type ServerSpansParts } from "./server-spans.ts";
import { traceStores } from "./store-spans.ts";
import { traceBounds } from "./trace-bounds.ts";

/** Wrappers from a port to the same port, with spans. */
export interface Traces {
  serverSpans(parts: Omit<ServerSpansParts, "tracer">): ServerSpans;
  stores(stores: Stores, system: "mongodb" | "sqlite"): Stores;
  readonly limit: LimitSpans;
  run(run: Runner): Runner;
  stream(stream: StreamRunner): StreamRunner;
  /** Lets the SDK export what it holds, within a bound of time. Never rejects. */
  close(): Promise<void>;
}

/**
 * Traces by the SDK that the operator has brought. That has a copy of the API of its own. A copy
 * sees what another one has registered only if that is not older than itself, so the version in
 * package.json is not the newest, but the oldest that operators may have.
 */
export function createTraces(version: string): Traces {
  const tracer: Tracer = trace.getTracer("keyrun", version);
  return {
    serverSpans: (parts) => createServerSpans({ ...parts, tracer }),
    stores: (stores, system) => traceStores(stores, tracer, system),
    limit: createLimitSpans(tracer),
    run: (run) => traceRuns(run, tracer),
    stream: (stream) => traceStreams(stream, tracer),
    close: flush,
  };
}

/** The facts of the active span, for each line of the log. */
export function traceOfLogLine(): object {
  const span = trace.getActiveSpan();
  return span === undefined ? {} : { trace_id: span.spanContext().traceId };
}

async function flush(): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, traceBounds.flushMsMax);
  await Promise.race([flushed(trace.getTracerProvider()).catch(() => {}), late.promise]);
  clearTimeout(timer);
}

/** The API has no such method. Providers of SDKs do, and the API hides them behind its own. */
async function flushed(provider: object): Promise<unknown> {
  const delegate: unknown = callMethod(provider, "getDelegate") ?? provider;
  return await callMethod(delegate, "forceFlush");
}

function callMethod(of: unknown, name: string): unknown {
  if (typeof of !== "object" || of === null) return undefined;
  const method: unknown = Reflect.get(of, name);
  return typeof method === "function" ? Reflect.apply(method, of, []) : undefined;
}
