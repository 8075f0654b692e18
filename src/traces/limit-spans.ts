import { context, type Link, SpanKind, type Tracer, trace } from "@opentelemetry/api";
import type { SharedLimiter } from "../limit/redis/shared-limiter.ts";
import type { SharedLogs } from "../limit/redis/shared-logs.ts";
import { inWorkSpan, traceBounds } from "./work-span.ts";

/** The two sides of the limit that instances share. */
export interface LimitSpans {
  /** The same limiter, with a span for each request that waits for Redis. */
  limiter(limiter: SharedLimiter): SharedLimiter;
  /** The same logs, with a span for each call of Redis. */
  logs(logs: SharedLogs): SharedLogs;
}

/**
 * One call of Redis decides for all requests of a turn. Its span is a child of the first one's, and
 * has links to the others.
 */
export function createLimitSpans(tracer: Tracer): LimitSpans {
  /** Those that wait for a call, in the order in which the calls take them. */
  const waiting = new Set<Link>();
  /** What a call has taken: it may be sent again. */
  const taken = new WeakMap<object, readonly Link[]>();

  function take(asks: Parameters<SharedLogs["spend"]>[0]): readonly Link[] {
    const known = taken.get(asks);
    if (known !== undefined) return known;
    const count = asks.reduce((sum, ask) => sum + ask.count, 0);
    const links = [...waiting].slice(0, count);
    for (const link of links) waiting.delete(link);
    taken.set(asks, links);
    return links;
  }

  return {
    limiter: (limiter) => ({
      ...limiter,
      spend: (id, limit, cost, key) =>
        inWorkSpan(tracer, spendSpan, async (span) => {
          const link = { context: span?.spanContext() ?? noSpan };
          waiting.add(link);
          try {
            return await limiter.spend(id, limit, cost, key);
          } finally {
            waiting.delete(link);
          }
        }),
    }),
    logs: (logs) => ({
      close: logs.close,
      spend(asks, giveUpMs) {
        const all = take(asks).filter((link) => link.context !== noSpan);
        const [first, ...others] = all.slice(0, traceBounds.linksMax + 1);
        if (first === undefined) return logs.spend(asks, giveUpMs);
        const span = {
          name: "EVALSHA",
          attributes: {
            "db.system.name": "redis",
            "db.operation.name": "EVALSHA",
            "keyrun.requests": all.length,
          },
          links: others,
        };
        return context.with(trace.setSpanContext(context.active(), first.context), () =>
          inWorkSpan(tracer, span, () => logs.spend(asks, giveUpMs)),
        );
      },
    }),
  };
}

const spendSpan = { name: "spend limit", kind: SpanKind.INTERNAL, attributes: {} };

/** Takes the place of a spend that belongs to no request. */
const noSpan = { traceId: "0".repeat(32), spanId: "0".repeat(16), traceFlags: 0 };
