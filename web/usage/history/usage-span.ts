const hourMs = 60 * 60 * 1_000;
const dayMs = 24 * hourMs;

/** The spans that the chart shows, each with as many steps as bars. */
export const usageSpans = {
  day: { words: "24 hours", step: "USAGE_STEP_HOUR", stepMs: hourMs, steps: 24 },
  month: { words: "30 days", step: "USAGE_STEP_DAY", stepMs: dayMs, steps: 30 },
} as const;

export type UsageSpan = keyof typeof usageSpans;

/** When the first step of a span begins. The last step is the one that holds `nowMs`. */
export function spanStartMs(span: UsageSpan, nowMs: number): number {
  const { stepMs, steps } = usageSpans[span];
  return (Math.floor(nowMs / stepMs) - steps + 1) * stepMs;
}

/** The span that these steps are of; `otherwise` if there are too few to tell. */
export function spanOf(steps: readonly { readonly startMs: number }[], otherwise: UsageSpan): UsageSpan {
  const [first, second] = steps;
  if (first === undefined || second === undefined) return otherwise;
  return second.startMs - first.startMs < dayMs ? "day" : "month";
}
