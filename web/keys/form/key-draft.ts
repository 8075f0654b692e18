import { type Expiry, expiryMs, expiryProblem, neverExpires } from "./expiry.ts";
import { labelProblem } from "./label-problem.ts";

/** A key as a person describes it before it is created. */
export interface KeyDraft {
  readonly label: string;
  readonly expiry: Expiry;
  /** The only apps that the key may run; none for all. */
  readonly appIds: readonly string[];
  /** As it was typed; empty for no limit of the key's own. */
  readonly requestsPerMinute: string;
  /** As it was typed; empty for no quota of the key's own. */
  readonly quota: string;
  readonly quotaPeriod: QuotaPeriod;
}

export const quotaPeriods = ["QUOTA_PERIOD_DAY", "QUOTA_PERIOD_MONTH"] as const;
export type QuotaPeriod = (typeof quotaPeriods)[number];

export const emptyDraft: KeyDraft = {
  label: "",
  expiry: neverExpires,
  appIds: [],
  requestsPerMinute: "",
  quota: "",
  quotaPeriod: "QUOTA_PERIOD_MONTH",
};

/** Why Keyrun would refuse a field of a key; null where it would not. */
export interface KeyProblems {
  readonly label: string | null;
  readonly expiry: string | null;
  readonly requestsPerMinute: string | null;
  readonly quota: string | null;
}

export const noProblems: KeyProblems = { label: null, expiry: null, requestsPerMinute: null, quota: null };

/** `limit` is the plan's; undefined if it is not known. */
export function draftProblems(draft: KeyDraft, nowMs: number, limit: number | undefined): KeyProblems {
  return {
    label: labelProblem(draft.label),
    expiry: expiryProblem(draft.expiry, nowMs),
    requestsPerMinute: rateProblem(draft.requestsPerMinute, limit),
    quota: quotaProblem(draft.quota.trim()),
  };
}

function rateProblem(text: string, limit: number | undefined): string | null {
  const typed = text.trim();
  if (typed === "") return null;
  const rate = /^\d{1,9}$/.test(typed) ? Number(typed) : 0;
  if (rate >= 1 && rate <= (limit ?? rate)) return null;
  return limit === undefined
    ? "Enter a whole number from 1 on, or leave the field empty."
    : `Enter a whole number from 1 to ${limit}, the plan’s limit, or leave the field empty.`;
}

function quotaProblem(typed: string): string | null {
  if (typed === "" || (/^[1-9]\d{0,12}$/.test(typed) && Number(typed) <= 1e12)) return null;
  return "Enter a whole number from 1 to 1000000000000, or leave the field empty.";
}

/** The fields of the request that creates the key. */
export function draftFields(draft: KeyDraft, nowMs: number) {
  const ms = expiryMs(draft.expiry, nowMs);
  const rate = draft.requestsPerMinute.trim();
  const quota = draft.quota.trim();
  return {
    label: draft.label.trim(),
    ...(ms !== null && { expireTime: new Date(ms).toISOString() }),
    ...(draft.appIds.length > 0 && { appIds: [...draft.appIds] }),
    ...(rate !== "" && { requestsPerMinute: Number(rate) }),
    ...(quota !== "" && { quota: { requests: quota, period: draft.quotaPeriod } }),
  };
}
