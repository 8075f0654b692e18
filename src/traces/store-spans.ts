import type { Tracer } from "@opentelemetry/api";
import type { Stores } from "../store/stores.ts";
import { inWorkSpan } from "./work-span.ts";

/**
 * The same stores, with a span for each call that a request makes. A look-up or a write that
 * several requests wait for together is a child of the first one's span.
 */
export function traceStores(stores: Stores, tracer: Tracer, system: "mongodb" | "sqlite"): Stores {
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
    runRecords: traced("run_records", stores.runRecords),
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
      inWorkSpan(tracer, span, () => Reflect.apply(work, port, given)),
    );
  }
  return traced;
}
