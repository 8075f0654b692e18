import type { Registry } from "@prometheus-io/client";
import { createHistogram } from "./histogram.ts";

/** Where Keyrun keeps what it knows. */
export const services = ["store", "redis"] as const;
export type Service = (typeof services)[number];

/** Counts and times the calls of one operation. Each call ends in one of the two. */
export interface CallMeter {
  succeeded(seconds: number): void;
  failed(seconds: number): void;
}

/**
 * The calls to other services. The operations are the methods of ports, so the code bounds how many
 * there are. An operation has its series from its first call on.
 */
export function callMeters(registers: Registry[]) {
  const shared = { labelNames: ["operation", "outcome"] as const, registers };
  const durations = {
    store: createHistogram({
      ...shared,
      name: "keyrun_store_call_seconds",
      help: "How long calls to the store took, by operation and whether the store did it (ok) or not (failed).",
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2],
    }),
    redis: createHistogram({
      ...shared,
      name: "keyrun_redis_call_seconds",
      help: "How long calls to Redis took, by operation and whether Redis did it (ok) or not (failed).",
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1],
    }),
  };
  return (service: Service, operation: string): CallMeter => {
    let made: { ok: (seconds: number) => void; failed: (seconds: number) => void } | undefined;
    const make = () => {
      const ok = durations[service]({ operation, outcome: "ok" });
      const failed = durations[service]({ operation, outcome: "failed" });
      made = { ok: (seconds) => ok.add(seconds), failed: (seconds) => failed.add(seconds) };
      return made;
    };
    return {
      succeeded: (seconds) => (made ?? make()).ok(seconds),
      failed: (seconds) => (made ?? make()).failed(seconds),
    };
  };
}
