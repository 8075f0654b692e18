/** The health service of gRPC (`grpc.health.v1`). */

import {
  type Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "#gen/grpc/health/v1/health_pb.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import { fail } from "../refusal/refusal.ts";

export interface HealthOptions {
  /** Full names of the services that are served, for example `keyrun.v1.RunService`. */
  readonly serviceNames: readonly string[];
  readonly readiness: Pick<Readiness, "ready" | "onChange">;
  /** The bound on concurrent calls of `Watch`. One call more is refused with UNAVAILABLE. */
  readonly watchersMax: number;
}

/**
 * Implements `grpc.health.v1.Health`: every service, and "" for the whole server, is SERVING while
 * the process is ready and NOT_SERVING otherwise. For a service that isn't served, `Check` refuses
 * with NOT_FOUND; `Watch` answers SERVICE_UNKNOWN and stays open. A watcher that reads slowly gets
 * the newest status and may miss others.
 */
export function createHealth(options: HealthOptions): ServiceMethods<typeof Health> {
  const { readiness, watchersMax } = options;
  const names = new Set(["", ...options.serviceNames]);
  let watchers = 0;

  function statusOf(service: string): ServingStatus {
    if (!names.has(service)) return ServingStatus.SERVICE_UNKNOWN;
    return readiness.ready() ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
  }

  return {
    check({ service }) {
      if (!names.has(service)) {
        throw fail("NOT_FOUND", { param: "service", problem: "No service of this name is served here." });
      }
      return { status: statusOf(service) };
    },

    list() {
      const statuses = Object.fromEntries([...names].map((name) => [name, { status: statusOf(name) }]));
      return { statuses };
    },

    async *watch({ service }, { signal }) {
      if (watchers >= watchersMax) {
        throw fail("UNAVAILABLE", { problem: "Too many health watches are open. Try again later." });
      }
      watchers++;
      const watch = openWatch(readiness, { signal, onClose: () => watchers-- });
      try {
        let sent: ServingStatus | undefined;
        while (watch.isOpen()) {
          const status = statusOf(service);
          if (status === sent) {
            await watch.change();
            continue;
          }
          sent = status;
          yield { status };
        }
      } finally {
        watch.close();
      }
    },
  };
}

interface Watch {
  /** False once the caller has disconnected. */
  isOpen(): boolean;
  /** Resolves at the next change of the readiness, or when the watch is closed. */
  change(): Promise<void>;
  close(): void;
}

/**
 * Also closes the watch as soon as the signal is aborted: when the caller has disconnected, the
 * generator may never run again.
 */
function openWatch(
  readiness: HealthOptions["readiness"],
  { signal, onClose }: { signal: AbortSignal; onClose: () => void },
): Watch {
  let open = true;
  let wake = () => {};
  const unsubscribe = readiness.onChange(() => wake());
  const close = () => {
    if (!open) return;
    open = false;
    signal.removeEventListener("abort", close);
    unsubscribe();
    onClose();
    wake();
  };
  signal.addEventListener("abort", close);
  if (signal.aborted) close();
  return {
    isOpen: () => open,
    change: () =>
      new Promise((resolve) => {
        wake = resolve;
      }),
    close,
  };
}

/** Whether this process should get new work, as `/readyz` and `grpc.health.v1` answer. */
export interface Readiness {
  /** True between the end of the start and the beginning of the drain. */
  ready(): boolean;
  /** Why it is not ready, in words for the operator; undefined while it is ready. */
  why(): string | undefined;
  /** Calls the listener after each change of `ready()`, until the returned function is called. */
  onChange(listener: () => void): () => void;
}
