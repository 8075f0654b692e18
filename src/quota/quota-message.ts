/** A quota over the wire: what it allows, and what is used of it. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { QuotaPeriod as PeriodNumber, type QuotaSchema } from "#gen/keyrun/v1/quota_pb.ts";
import { fail } from "../refusal/refusal.ts";
import { type QuotaLimit, type QuotaPeriod, quotaPeriods, quotaRequestsMax } from "../settings/config.ts";
import type { QuotaState } from "./quota.ts";

const periodNumbers: Readonly<Record<QuotaPeriod, PeriodNumber>> = {
  day: PeriodNumber.DAY,
  month: PeriodNumber.MONTH,
};

/** The period of this number; undefined where it is unspecified or unknown. */
export function quotaPeriodOf(number: PeriodNumber): QuotaPeriod | undefined {
  return quotaPeriods.find((period) => periodNumbers[period] === number);
}

/** How many requests a field names. Throws INVALID_ARGUMENT where that is no number of a quota. */
export function readRequests(requests: bigint, param: string): number {
  if (requests >= 1n && requests <= BigInt(quotaRequestsMax)) return Number(requests);
  throw fail("INVALID_ARGUMENT", { param, problem: `${param} must be from 1 to ${quotaRequestsMax}.` });
}

/** A quota with its state. */
export function quotaMessage(state: QuotaState): MessageInitShape<typeof QuotaSchema> {
  return {
    limit: BigInt(state.limit),
    period: periodNumbers[state.period],
    used: BigInt(state.used),
    granted: BigInt(state.granted),
    resetTime: timestampFromMs(state.resetTimeMs),
  };
}

/** The quota without its state, which costs a read of the store. */
export function quotaLimitMessage({ requests, period }: QuotaLimit): MessageInitShape<typeof QuotaSchema> {
  return { limit: BigInt(requests), period: periodNumbers[period] };
}
