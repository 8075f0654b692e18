import type { Quota } from "../api/messages.ts";
import { wholeNumber } from "../time/local-format.ts";
import { nearShare, type UsageTone } from "./usage-words.ts";

/** The numbers of a quota, which come as text, and how near its end is. */
export function quotaState(quota: Quota) {
  const granted = Number(quota.granted ?? 0);
  const total = Number(quota.limit ?? 0) + granted;
  const used = Math.min(Number(quota.used ?? 0), total);
  const tone: UsageTone = used >= total ? "reached" : used >= total * nearShare ? "near" : "calm";
  return { used, total, granted: granted === 0 ? "" : wholeNumber(granted), tone };
}

/** The span that a quota counts, of UTC. */
export function quotaSpan(period: Quota["period"]): "day" | "month" {
  return period === "QUOTA_PERIOD_DAY" ? "day" : "month";
}

/** "790 of 1,000 used". */
export function quotaUsedInWords(quota: Quota): string {
  const { used, total } = quotaState(quota);
  return `${wholeNumber(used)} of ${wholeNumber(total)} used`;
}
