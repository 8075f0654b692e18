import type { Match, RouteTable } from "./route-table.ts";

/** Targets remembered for one HTTP method, and the methods that there are targets for. */
export const rememberedTargetsMax = 1_000;
const methodsMax = 16;
/** Longer targets are looked up each time. */
export const rememberedCharactersMax = 256;

/**
 * The same table, which looks a target up once: callers send the same few again and again. Only what was found is
 * remembered, so what is there is bounded by what the rules take; when it is full, all of it is forgotten.
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
