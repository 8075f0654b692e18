import type { DescService } from "@bufbuild/protobuf";
import { createRouteNames, type NameRoute } from "../http/route-names.ts";
import { pathOfMethod } from "../rpc/served.ts";
import { bindingsOf } from "../transcode/binding.ts";

/** The paths of both listeners beside those of RPCs, REST methods and the screen's files. */
const ownPaths = [
  ...["/healthz", "/readyz", "/openapi.json", "/metrics"],
  ...["/", "/settings", "/settings/**", "/sign-in", "/sign-in/link", "/sign-in/code", "/sign-in/callback"],
  ...["/docs/api", "/docs/errors", "/docs/security", "/.well-known/security.txt"],
];

/** Names the routes of all services and of the screen's files. */
export function nameRoutes(services: readonly DescService[], screenPaths: Iterable<string>): NameRoute {
  const rpcs = services.flatMap(({ methods }) => methods.map(pathOfMethod));
  const rest = services.flatMap(bindingsOf).map(({ template }) => template.source.replaceAll("=*}", "}"));
  return createRouteNames([...ownPaths, ...rpcs, ...rest, ...screenPaths]);
}
