import type { FleetOfRedis } from "#src/limit/redis/redis-logs.ts";

/** A fleet whose other instances share limits nowhere, as while a test has one instance. */
export function fleetOfRedis(parts: Partial<FleetOfRedis> = {}): FleetOfRedis {
  return { id: "fleet", newMark: () => "mark", marksOf: () => [], onMark: () => {}, ...parts };
}
