import { pathOf } from "./request-head.ts";

/**
 * Returns the route that a target belongs to, for the log; undefined if there is none. It never
 * returns a text of the caller: what the caller chose stays `{name}` or `**`.
 */
export type NameRoute = (target: string) => string | undefined;

/**
 * Names these routes. A route is a path, in which `{name}` is one segment and `**` at the end is
 * any rest.
 */
export function createRouteNames(routes: readonly string[]): NameRoute {
  const fixed = new Set(routes.filter((route) => !/[{*]/.test(route)));
  const others = routes.filter((route) => !fixed.has(route)).map((route) => route.split("/"));
  return (target) => {
    const path = pathOf(target);
    if (fixed.has(path)) return path;
    const segments = path.split("/").map(decoded);
    return others.find((route) => isOnRoute(route, segments))?.join("/");
  };
}

function isOnRoute(route: readonly string[], segments: readonly string[]): boolean {
  if (route.at(-1) !== "**" && segments.length !== route.length) return false;
  return route.every((part, at) => part === "**" || part.startsWith("{") || part === segments[at]);
}

/** A segment that is not valid UTF-8 stays as it is. */
function decoded(segment: string): string {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
