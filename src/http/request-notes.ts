import type { Entry } from "../metrics/metrics.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { pathOf, type RequestHead } from "./request-head.ts";

/**
 * What becomes known of one request on its way, for the access log and for traces. Requests have
 * notes only while one of these is on.
 */
export interface RequestNotes {
  readonly head: RequestHead;
  /** When the head had arrived, in monotonic time. */
  readonly begunMs: number;
  /** That of the listener, until the request is given to a handler. */
  entry: Entry;
  /** Undefined before the request is given to a handler, or refused. */
  request: { readonly requestId: string; readonly address: string } | undefined;
  /** Set once the caller's key is proven, also if its team's limit then refuses the request. */
  keyId: string | undefined;
  teamId: string | undefined;
  /** An app that exists, and that the team may run. */
  appId: string | undefined;
  /** Undefined for what is not counted (probes, files), and while nothing is decided. */
  outcome: "OK" | Refusal | undefined;
  /** Of the answer's body: so many were passed on. */
  bytes: number;
  /** Undefined without traces. */
  traceId: string | undefined;
}

/** Watches all requests of a listener. None of its methods throws. */
export interface RequestWatch {
  /** Called when the head of a request has arrived. */
  begun(head: RequestHead, entry: Entry): RequestNotes;
  /**
   * Called once for each, when its response is closed: the last byte was passed on, or the caller
   * has left. The status is undefined if no head was sent.
   */
  ended(notes: RequestNotes, status: number | undefined): void;
}

/** Something that watches requests, with others. */
export interface RequestObserver {
  begun?(notes: RequestNotes): void;
  ended(notes: RequestNotes, status: number | undefined): void;
}

/**
 * A watch for all of these; undefined if there is none. An observer that throws, as an operator's
 * own sampler of traces may, disturbs no request.
 */
export function watchRequests(
  observers: readonly RequestObserver[],
  {
    monotonicMs,
    onFault,
  }: {
    monotonicMs(): number;
    /** Called with what an observer throws. */
    onFault(thrown: unknown): void;
  },
): RequestWatch | undefined {
  if (observers.length === 0) return undefined;
  const each = (call: (observer: RequestObserver) => void) => {
    for (const observer of observers) {
      try {
        call(observer);
      } catch (thrown) {
        onFault(thrown);
      }
    }
  };
  return {
    begun(head, entry) {
      const notes: RequestNotes = {
        head,
        entry,
        begunMs: monotonicMs(),
        request: undefined,
        keyId: undefined,
        teamId: undefined,
        appId: undefined,
        outcome: undefined,
        bytes: 0,
        traceId: undefined,
      };
      each((observer) => observer.begun?.(notes));
      return notes;
    },
    ended(notes, status) {
      each((observer) => observer.ended(notes, status));
    },
  };
}

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

/** Whether it is a route that balancers ask every few seconds. It is neither logged nor traced. */
export function isProbe(route: string | undefined): boolean {
  return route !== undefined && probes.test(route);
}

const probes = /^\/(?:healthz|readyz|grpc\.health\.v1\.Health\/.*)$/;
