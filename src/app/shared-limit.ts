import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { SharedLimiter } from "../limit/redis/shared-limiter.ts";
import type { OpenSharedLogs } from "../limit/redis/shared-logs.ts";
import type { Log } from "../log/log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Config } from "../settings/config.ts";
import type { LimitSpans } from "../traces/limit-spans.ts";
import type { FleetInstance } from "./fleet.ts";
import { meterSharedLogs } from "./meters.ts";

/**
 * Opens the limits that several instances share; undefined where the settings name no Redis. Then
 * the client of Redis is not even loaded. Throws StartRefused as `openSharedLimiter` does.
 */
export async function openSharedLimit({
  config,
  instance,
  clock,
  log,
  metrics,
  spans,
}: {
  readonly config: Pick<Config, "sharedLimit">;
  readonly instance: Pick<FleetInstance, "redis" | "sharePlace"> | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Pick<Metrics, "callsOf">;
  readonly spans: LimitSpans | undefined;
}): Promise<SharedLimiter | undefined> {
  if (!config.sharedLimit || !instance) return undefined;
  let why: string | undefined;
  const { openSharedLimiter } = await import("../limit/redis/open-limiter.ts");
  const { ForeignRedis } = await import("../limit/redis/redis-trouble.ts");
  const isForeign = (cause: unknown) => cause instanceof ForeignRedis;
  const traced = (open: OpenSharedLogs): OpenSharedLogs =>
    spans ? async (lost) => spans.logs(await open(lost)) : open;
  const limiter = await openSharedLimiter({
    ...config.sharedLimit,
    fleet: instance.redis,
    clock,
    sharePlace: () => instance.sharePlace(),
    windowMs: bounds.limitWindowMs,
    wrap: (open) => meterSharedLogs(traced(open), { clock, metrics }),
    events: {
      modeChanged({ mode, cause }) {
        why = undefined;
        if (mode === "shared") log.info({ cause }, "Redis answers again: limits are shared");
        else if (isForeign(cause)) log.error({ err: cause, mode }, foreignWords);
        else log.warn({ err: cause, mode }, "Redis does not answer: limits go by KEYRUN_LIMIT_FALLBACK");
      },
      returnFailed(cause) {
        // Each reason once, and not every second.
        const reason = cause instanceof Error ? cause.message : String(cause);
        if (reason === why) return;
        why = reason;
        if (isForeign(cause)) log.error({ err: cause }, foreignWords);
        else log.warn({ err: cause }, "Redis is still of no use: it is tried again every second");
      },
    },
  });
  return spans?.limiter(limiter) ?? limiter;
}

const foreignWords =
  "Redis is not that of this fleet: limits go by KEYRUN_LIMIT_FALLBACK, and it is tried again every second";
