/** Quotas on the command line: how they are read and told. */

import type { QuotaJson } from "#gen/keyrun/v1/quota_pb.ts";
import { quotaRequestsMax } from "../settings/config.ts";
import { wrongUse } from "./failures.ts";
import { timeWords } from "./table.ts";

/** How many requests an option or an argument names. */
export function readRequests(text: string, name: string): string {
  if (/^[1-9]\d{0,12}$/.test(text) && Number(text) <= quotaRequestsMax) return text;
  throw wrongUse(`${name} must be a whole number from 1 to ${quotaRequestsMax}, like 1000.`);
}

export function periodWord({ period }: QuotaJson): "day" | "month" {
  return period === "QUOTA_PERIOD_DAY" ? "day" : "month";
}

/** `1000 a day: 250 used, 100 more granted, resets at …`. */
export function quotaWords(quota: QuotaJson): string {
  const { limit = "0", used = "0", granted = "0", resetTime } = quota;
  const words = `${limit} a ${periodWord(quota)}`;
  if (resetTime === undefined) return words;
  const more = granted === "0" ? "" : `${granted} more granted, `;
  return `${words}: ${used} used, ${more}resets at ${timeWords(resetTime)}`;
}
