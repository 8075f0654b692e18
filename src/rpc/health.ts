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
      let wake = () => {};
      const unsubscribe = readiness.onChange(() => wake());
      watchers++;
      let watching = true;
      // On abort too: a stream whose caller went away may never be pulled again.
      const leave = () => {
        if (!watching) return;
        watching = false;
        watchers--;
        unsubscribe();
        wake();
      };
      signal.addEventListener("abort", leave, { once: true });
      if (signal.aborted) leave();
      try {
        let sent: ServingStatus | undefined;
        while (watching) {
          const status = statusOf(service);
          if (status === sent) {
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
            continue;
          }
          sent = status;
          yield { status };
        }
      } finally {
        signal.removeEventListener("abort", leave);
        leave();
      }
    },
  };
}
