import { ProxyTracerProvider, type Tracer, trace } from "@opentelemetry/api";
import type { AppRunner } from "../run/app-runner.ts";
import type { Runner, StreamRunner } from "../run/runner.ts";
import type { Stores } from "../store/stores.ts";
import { traceRuns, traceStreams } from "./app-spans.ts";
import { createLimitSpans, type LimitSpans } from "./limit-spans.ts";
import { createServerSpans, type ServerSpans, type ServerSpansParts } from "./server-spans.ts";
import { inWorkSpan, traceBounds } from "./work-span.ts";

/** Wrappers from a port to the same port, with spans. */
export interface Traces {
  serverSpans(parts: Omit<ServerSpansParts, "tracer">): ServerSpans;
  stores(stores: Stores, system: "mongodb" | "sqlite"): Stores;
  readonly limit: LimitSpans;
  run(runner: Pick<AppRunner, "run" | "traceOf">): Runner;
  stream(runner: Pick<AppRunner, "stream" | "traceOf">): StreamRunner;
  /** Lets the SDK export what it holds, within a bound of time. Never rejects. */
  close(): Promise<void>;
}

/**
 * Whether an SDK of OpenTelemetry was registered, by a module that the operator loads before
 * Keyrun. The SDK has a copy of the API of its own. A copy sees what another one has registered
 * only if that is not older than itself, so the version in package.json is not the newest, but the
 * oldest that operators may have.
 */
export function isSdkRegistered(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer("keyrun") !== undefined;
}

/** Traces by the SDK that the operator has brought. Undefined without one: nothing is wrapped. */
export function createTraces(version: string): Traces | undefined {
  if (!isSdkRegistered()) return undefined;
  const tracer: Tracer = trace.getTracer("keyrun", version);
  return {
    serverSpans: (parts) => createServerSpans({ ...parts, tracer }),
    stores: (stores, system) => traceStores(stores, tracer, system),
    limit: createLimitSpans(tracer),
    run: (runner) => traceRuns(runner, tracer),
    stream: (runner) => traceStreams(runner, tracer),
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

/**
 * The same stores, with a span for each call that a request makes. A look-up or a write that
 * several requests wait for together is a child of the first one's span.
 */
function traceStores(stores: Stores, tracer: Tracer, system: "mongodb" | "sqlite"): Stores {
  const traced = <Port extends object>(collection: string, port: Port) =>
    tracePort(port, { tracer, system, collection });
  return {
    ...stores,
    keys: traced("keys", stores.keys),
    teams: traced("teams", stores.teams),
    members: traced("members", stores.members),
    preview: traced("preview", stores.preview),
    apps: traced("apps", stores.apps),
    sessions: traced("sessions", stores.sessions),
    serviceTokens: traced("service_tokens", stores.serviceTokens),
    users: traced("users", stores.users),
    runs: traced("runs", stores.runs),
  };
}

function tracePort<Port extends object>(
  port: Port,
  { tracer, system, collection }: { tracer: Tracer; system: string; collection: string },
): Port {
  const traced = { ...port };
  for (const [operation, work] of Object.entries(port)) {
    if (typeof work !== "function") continue;
    const span = {
      name: `${operation} ${collection}`,
      attributes: {
        "db.system.name": system,
        "db.operation.name": operation,
        "db.collection.name": collection,
      },
    };
    Reflect.set(traced, operation, (...given: unknown[]) =>
      inWorkSpan(tracer, span, async () => Reflect.apply(work, port, given)),
    );
  }
  return traced;
}
