import type { Match, RouteTable } from "./route-table.ts";

/**
 * How many targets are kept for each HTTP method. `methodsMax` bounds how many methods have some.
 */
export const rememberedTargetsMax = 1_000;
const methodsMax = 16;
/** Longer targets are not kept. */
export const rememberedCharactersMax = 256;

/**
 * Caches the matches of a route table, because callers send the same few targets again and again.
 * Only successful matches are kept. A full cache is emptied.
 */
export function rememberRoutes(table: RouteTable): RouteTable {
  const known = new Map<string, Map<string, Match>>();
  return (httpMethod, target) => {
    const match = known.get(httpMethod)?.get(target);
    if (match !== undefined) return match;
    const found = table(httpMethod, target);
    if (found.kind === "found" && target.length <= rememberedCharactersMax) {
      if (known.size >= methodsMax && !known.has(httpMethod)) known.clear();
      const targets = known.get(httpMethod) ?? new Map<string, Match>();
      if (targets.size >= rememberedTargetsMax) targets.clear();
      known.set(httpMethod, targets.set(target, found));
    }
    return found;
  };
}
