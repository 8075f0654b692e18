import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { RateLimitSchema } from "#gen/keyrun/v1/rate_limit_pb.ts";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { type KeyEnd, keyEndHeaders } from "../http/headers.ts";
import type { QuotaExceeded, QuotaState } from "../quota/quota.ts";
import { type LimitDecision, stricterLimit } from "./limit-decision.ts";

/**
 * The numbers in an answer's rate-limit headers, and whose limit they are. A team's may have those
 * of a key with them.
 */
export interface RateReport {
  readonly policy: "team" | "address";
  readonly decision: LimitDecision;
  /** The team's quota and the key's, as far as they have one and it is known. */
  readonly quotas?: readonly QuotaState[];
  /** The quota that refuses the request; undefined if none does. */
  readonly exceeded?: QuotaExceeded | undefined;
  /** When the caller's key will end; undefined: it does not expire, or no key is proven. */
  readonly keyEnd?: KeyEnd | undefined;
}

/**
 * An answer's rate-limit headers, and those of a key that ends: names and values, alternating. None
 * if `rate` is undefined.
 */
export function rateReportHeaders(rate: RateReport | undefined, clock: Clock): string[] {
  if (!rate) return [];
  const nowMs = clock.unixMs();
  const headers = rateLimitHeaders(rate.decision, rate.policy, nowMs);
  if (rate.quotas && rate.quotas.length > 0) addQuotas(headers, rate.quotas, nowMs);
  if (rate.exceeded) describeQuota(headers, rate.exceeded);
  if (rate.keyEnd) headers.push(...keyEndHeaders(rate.keyEnd, nowMs));
  return headers;
}

/**
 * A decision as response headers, names and values, alternating: the `RateLimit-*` fields that
 * clients have long read, the same facts in the form of draft-ietf-httpapi-ratelimit-headers, and
 * on a refusal how long to wait. Every time is rounded up, so a caller that waits as long as the
 * headers say is never early. The wait comes from `retryAfterMs`, in whole seconds from 1 to 60,
 * and never from the rounded reset, which could make it 61. Where the key has a limit of its own,
 * the fields of the draft list both, and the others describe the stricter one.
 */
export function rateLimitHeaders(
  decision: LimitDecision,
  policy: RateReport["policy"],
  nowUnixMs: number,
): string[] {
  const { key } = decision;
  const strict = stricterLimit(decision);
  const { limit, quota } = policyWords(policy, decision.limit);
  const left = leftWords(policy, decision, nowUnixMs);
  const ofKey = key && policyWords("key", key.limit);
  const headers = [
    "RateLimit-Limit",
    strict === key && ofKey ? ofKey.limit : limit,
    "RateLimit-Remaining",
    String(strict.remaining),
    "RateLimit-Reset",
    String(Math.ceil(strict.resetUnixMs / 1000)),
    "RateLimit",
    key ? `${left}, ${leftWords("key", key, nowUnixMs)}` : left,
    "RateLimit-Policy",
    ofKey ? `${quota}, ${ofKey.quota}` : quota,
  ];
  if (!decision.accepted) {
    headers.push("Retry-After", String(Math.ceil(strict.retryAfterMs / 1000)));
    headers.push("Retry-After-Ms", String(Math.ceil(strict.retryAfterMs)));
  }
  return headers;
}

/** The places of the values in what `rateLimitHeaders` returns. */
const at = { limit: 1, remaining: 3, reset: 5, left: 7, policy: 9 } as const;

/** Lists the quotas in the fields of the draft: `"team-month";r=99;t=86400`. */
function addQuotas(headers: string[], quotas: readonly QuotaState[], nowUnixMs: number): void {
  for (const state of quotas) {
    const name = `"${state.subject}-${state.period}"`;
    const resetAfterS = Math.ceil(Math.max(state.resetTimeMs - nowUnixMs, 0) / 1_000);
    const periodS = (state.resetTimeMs - state.startTimeMs) / 1_000;
    headers[at.left] += `, ${name};r=${state.left};t=${resetAfterS}`;
    headers[at.policy] += `, ${name};q=${state.limit + state.granted};w=${periodS}`;
  }
}

/**
 * The other fields describe the quota that refuses. There is no wait in milliseconds: timers of
 * JavaScript overflow after 24.8 days.
 */
function describeQuota(headers: string[], { state, retryAfterMs }: QuotaExceeded): void {
  headers[at.limit] = String(state.limit + state.granted);
  headers[at.remaining] = String(state.left);
  headers[at.reset] = String(Math.ceil(state.resetTimeMs / 1_000));
  headers.push("Retry-After", String(Math.ceil(retryAfterMs / 1_000)));
}

function leftWords(policy: Policy, { remaining, resetUnixMs }: LimitDecision, nowUnixMs: number): string {
  // The wall clock may have stepped since the decision.
  const resetAfterMs = Math.min(Math.max(resetUnixMs - nowUnixMs, 0), bounds.limitWindowMs);
  return `"${policy}";r=${remaining};t=${Math.ceil(resetAfterMs / 1000)}`;
}

type Policy = RateReport["policy"] | "key";

interface PolicyWords {
  readonly limit: string;
  readonly quota: string;
}

/**
 * The texts that depend on the limit alone, kept ready: there are as many limits as plans. Of keys
 * the first limits are kept.
 */
const known: Readonly<Record<Policy, Map<number, PolicyWords>>> = {
  team: new Map(),
  address: new Map(),
  key: new Map(),
};
const knownMax = 16;

function policyWords(policy: Policy, limit: number): PolicyWords {
  const words = known[policy].get(limit);
  if (words) return words;
  const made = { limit: String(limit), quota: `"${policy}";q=${limit};w=${bounds.limitWindowMs / 1000}` };
  if (known[policy].size < knownMax) known[policy].set(limit, made);
  return made;
}

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
