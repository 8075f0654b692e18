import type { Clock } from "../clock.ts";
import { rateLimitHeaders } from "../limit/rate-limit-headers.ts";
import type { RateReport } from "./admission.ts";

/** An answer's rate-limit headers, names and values in turn; none where no limit was asked. */
export function rateReportHeaders(rate: RateReport | undefined, clock: Clock): string[] {
  return rate ? rateLimitHeaders(rate.decision, rate.policy, clock.unixMs()) : [];
}
