import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { RateLimitSchema } from "#gen/keyrun/v1/rate_limit_pb.ts";
import type { LimitDecision } from "./limiter.ts";

/**
 * A decision of the limiter as a message. Times are rounded up to the millisecond, so that waiting
 * that long is enough.
 */
export function rateLimitMessage(decision: LimitDecision): MessageInitShape<typeof RateLimitSchema> {
  return {
    limit: decision.limit,
    remaining: decision.remaining,
    resetTime: timestampFromMs(Math.ceil(decision.resetUnixMs)),
    ...(!decision.accepted && { retryAfter: durationFromMs(Math.ceil(decision.retryAfterMs)) }),
  };
}
