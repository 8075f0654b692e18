/**
 * A service with its methods, as every RPC handler sees it: the work of a method, its path, its
 * longest time, and the refusal in what it throws.
 */

import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import type { Call, ServiceMethods } from "../auth/principal.ts";
import { bounds } from "../bounds.ts";
import { codeName } from "../http/refusal-response.ts";
import { type Reason, reasons } from "../refusal/reasons.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";

/** A service and its implementation. */
export interface ServedService {
  readonly service: DescService;
  readonly implementation: object;
  readonly times?: Times;
}

/** How long unary calls may take: those of the methods that `only` names, or of all. */
interface Times {
  readonly unaryMsMax: number;
  readonly only?: readonly DescMethod[];
}

/** Pairs a service with its implementation, and checks their types. */
export function served<S extends DescService>(
  service: S,
  implementation: ServiceMethods<S>,
  times?: Times,
): ServedService {
  return { service, implementation, ...(times && { times }) };
}

/** The longest time of a call that runs an app. The app's own timeout is over earlier. */
export const runMsMax = bounds.appTimeoutMsMax + bounds.unaryGraceMs;

/** One RPC, as every handler serves it. */
export interface Rpc {
  readonly method: DescMethod;
  /** Its types are those of the method's descriptor. */
  readonly work: (request: unknown, call: Call) => unknown;
  /** The longest time of a unary call. It ends work that does not end by itself. */
  readonly unaryMsMax: number;
}

/** The RPCs of the services. A method that is not implemented is refused with UNIMPLEMENTED. */
export function rpcsOf(services: readonly ServedService[]): readonly Rpc[] {
  return services.flatMap(({ service, implementation, times }) =>
    service.methods.map((method) => {
      const work: unknown = Reflect.get(implementation, method.localName);
      const isUsual = times === undefined || times.only?.includes(method) === false;
      return {
        method,
        work: typeof work === "function" ? work.bind(implementation) : unserved,
        unaryMsMax: isUsual ? bounds.unaryMsMax : times.unaryMsMax,
      };
    }),
  );
}

function unserved(): never {
  throw fail("UNIMPLEMENTED", { problem: "This method is not served here." });
}

/** Whether callers send a stream of messages. */
export function takesStream({ methodKind }: DescMethod): boolean {
  return methodKind === "client_streaming" || methodKind === "bidi_streaming";
}

/** Returns the method's path, for example `/keyrun.v1.RunService/RunApp`. */
export function pathOfMethod({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

/**
 * Returns a function that says whether a request's caller may send messages during the response.
 */
export function isConversation(
  services: readonly ServedService[],
): (request: { readonly url?: string | undefined }) => boolean {
  const methods = services.flatMap(({ service }) => service.methods);
  const paths = new Set(methods.filter(takesStream).map(pathOfMethod));
  return ({ url = "" }) => paths.has(url);
}

/**
 * Returns the refusal to log and count for what a method threw. A service may throw a ConnectError:
 * it is sent unchanged, and counted as the reason with the name of its code.
 */
export function refusalOfWork(thrown: unknown): Refusal {
  if (!(thrown instanceof ConnectError)) return refusalFrom(thrown);
  const name = codeName(thrown.code);
  return fail(isReason(name) ? name : "INTERNAL", { cause: thrown });
}

function isReason(name: string): name is Reason {
  return Object.hasOwn(reasons, name);
}
