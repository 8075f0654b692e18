import type { ServiceImpl } from "@connectrpc/connect";
import {
  type Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "#gen/grpc/health/v1/health_pb.ts";
import { fail } from "../error.ts";
import type { Readiness } from "../server/readiness.ts";

export interface HealthOptions {
  /** Full names of the services that are served, as in `keyrun.v1.RunService`. */
  readonly serviceNames: readonly string[];
  readonly readiness: Pick<Readiness, "ready" | "onChange">;
  /** Calls of `Watch` that are open at once; one more is refused with UNAVAILABLE. */
  readonly watchersMax: number;
}

/**
 * `grpc.health.v1.Health` as its proto has it: every service, and "" for the whole server, is SERVING while the
 * process is ready and NOT_SERVING otherwise. `Check` refuses a service that isn't served with NOT_FOUND, where
 * `Watch` answers SERVICE_UNKNOWN and stays open. A watcher that reads slowly sees the newest status, not every one.
 */
export function createHealth(options: HealthOptions): ServiceImpl<typeof Health> {
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
        throw fail("UNAVAILABLE", { problem: "As many health watches are open as may be. Try again later." });
      }
      watchers++;
      const watch = openWatch(readiness, { signal, onLeave: () => watchers-- });
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
        watch.leave();
      }
    },
  };
}

interface Watch {
  /** False from the moment that the caller went away. */
  isOpen(): boolean;
  /** Resolves at the next change of the readiness, or when the watch is left. */
  change(): Promise<void>;
  leave(): void;
}

/** Leaves on abort too, and at once: a stream whose caller went away may never be pulled again. */
function openWatch(
  readiness: HealthOptions["readiness"],
  { signal, onLeave }: { signal: AbortSignal; onLeave: () => void },
): Watch {
  let open = true;
  let wake = () => {};
  const unsubscribe = readiness.onChange(() => wake());
  const leave = () => {
    if (!open) return;
    open = false;
    signal.removeEventListener("abort", leave);
    unsubscribe();
    onLeave();
    wake();
  };
  signal.addEventListener("abort", leave);
  if (signal.aborted) leave();
  return {
    isOpen: () => open,
    change: () =>
      new Promise((resolve) => {
        wake = resolve;
      }),
    leave,
  };
}
