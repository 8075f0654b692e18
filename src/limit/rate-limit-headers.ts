import { bounds } from "../bounds.ts";
import type { Clock } from "../clock.ts";
import type { LimitDecision } from "./limiter.ts";

/** The numbers in an answer's rate-limit headers, and whose limit they are. */
export interface RateReport {
  readonly policy: "team" | "address";
  readonly decision: LimitDecision;
}

/** An answer's rate-limit headers, names and values in turn; none where `rate` is undefined. */
export function rateReportHeaders(rate: RateReport | undefined, clock: Clock): string[] {
  return rate ? rateLimitHeaders(rate.decision, rate.policy, clock.unixMs()) : [];
}

/**
 * A decision as response headers, names and values in turn: the `RateLimit-*` fields that clients
 * have long read, the same facts in the form of draft-ietf-httpapi-ratelimit-headers, and on a
 * refusal how long to wait. Every time is rounded up, so a caller that waits as long as the headers
 * say is never early. The wait comes from `retryAfterMs`, in whole seconds from 1 to 60, and never
 * from the rounded reset, which could make it 61.
 */
export function rateLimitHeaders(
  decision: LimitDecision,
  policy: RateReport["policy"],
  nowUnixMs: number,
): string[] {
  const { limit, quota } = policyWords(policy, decision.limit);
  const remaining = String(decision.remaining);
  // The wall clock may have stepped since the decision.
  const resetAfterMs = Math.min(Math.max(decision.resetUnixMs - nowUnixMs, 0), bounds.limitWindowMs);
  const headers = [
    "RateLimit-Limit",
    limit,
    "RateLimit-Remaining",
    remaining,
    "RateLimit-Reset",
    String(Math.ceil(decision.resetUnixMs / 1000)),
    "RateLimit",
    `"${policy}";r=${remaining};t=${Math.ceil(resetAfterMs / 1000)}`,
    "RateLimit-Policy",
    quota,
  ];
  if (!decision.accepted) {
    headers.push("Retry-After", String(Math.ceil(decision.retryAfterMs / 1000)));
    headers.push("Retry-After-Ms", String(Math.ceil(decision.retryAfterMs)));
  }
  return headers;
}

interface PolicyWords {
  readonly limit: string;
  readonly quota: string;
}

/** The texts that depend on the limit alone, kept ready: there are as many limits as plans. */
const known = { team: new Map<number, PolicyWords>(), address: new Map<number, PolicyWords>() };
const knownMax = 16;

function policyWords(policy: RateReport["policy"], limit: number): PolicyWords {
  const words = known[policy].get(limit);
  if (words) return words;
  const made = { limit: String(limit), quota: `"${policy}";q=${limit};w=${bounds.limitWindowMs / 1000}` };
  if (known[policy].size < knownMax) known[policy].set(limit, made);
  return made;
}
