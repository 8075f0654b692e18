import type { DescMethod, DescService } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { connectNodeAdapter } from "@connectrpc/connect-node";
import { bounds } from "../config.ts";
import type { ServiceMethods, ServiceStreams } from "../service-methods.ts";

/** Node's request and response, by either protocol, as Connect takes them. */
export type NodeHandler = ReturnType<typeof connectNodeAdapter>;
export type NodeRequest = Parameters<NodeHandler>[0];
export type NodeResponse = Parameters<NodeHandler>[1];

/** A service and what does its work: unary methods as plain functions, or a Connect implementation with streams. */
export type ServedService = {
  readonly service: DescService;
  readonly implementation: object;
};

/** Serves plain methods under their service's name. */
export function served<S extends DescService>(
  service: S,
  implementation: (ServiceMethods<S> & ServiceStreams<S>) | Partial<ServiceImpl<S>>,
): ServedService {
  return { service, implementation };
}

/** What does a method's work, of whatever types its descriptor names. */
export type Work = (request: unknown, call: unknown) => unknown;

/** The method's work; undefined where the implementation leaves it out. */
export function workOf(implementation: object, { localName }: DescMethod): Work | undefined {
  const work: unknown = Reflect.get(implementation, localName);
  if (typeof work !== "function") return undefined;
  return (request, call) => Reflect.apply(work, implementation, [request, call]);
}

/** The method's place in URLs: `/keyrun.v1.RunService/RunApp`. */
export function pathOfMethod({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

/**
 * How long a unary call may take where its caller names no shorter time. The last word, for work that does not end by
 * itself: an app's own timeout, of 30 s at the most, comes first.
 */
export const unaryMsMax = bounds.unaryMsMax + bounds.unaryGraceMs;
