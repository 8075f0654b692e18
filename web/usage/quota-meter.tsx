import type { Quota } from "../api/messages.ts";
import { utcTime, utcTimeLanguage } from "../time/utc-format.ts";
import { quotaSpan, quotaState, quotaUsedInWords } from "./quota-words.ts";

/** The team's quota: how much of it is used, when it begins anew, and a warning near its end. */
export function QuotaMeter({ quota, stale }: { quota: Quota; stale: boolean }) {
  const { used, total, granted, tone } = quotaState(quota);
  const span = quotaSpan(quota.period);
  const resetMs = Date.parse(quota.resetTime ?? "");
  return (
    <div className="quota">
      <p className="usage-used">
        <strong>{quotaUsedInWords(quota)}</strong> this {span}
        {granted !== "" && <span className="muted"> · {granted} granted</span>}
        <span className="muted"> · resets </span>
        <time className="muted" dateTime={quota.resetTime} lang={utcTimeLanguage()} dir="auto">
          {utcTime(resetMs)}
        </time>
      </p>
      <meter
        aria-label={`Requests used this ${span}`}
        aria-valuetext={quotaUsedInWords(quota)}
        data-tone={stale ? "stale" : tone}
        min={0}
        max={total}
        low={total * 0.8}
        high={total}
        optimum={0}
        value={used}
        style={{ "--used": total === 0 ? 1 : used / total }}
      />
      {tone !== "calm" && (
        <p className="quota-warning" data-tone={tone}>
          {tone === "reached"
            ? "The quota is used up: requests get 429 until it resets. Your operator can grant more."
            : "Most of the quota is used. Past it, requests get 429 until it resets."}
        </p>
      )}
    </div>
  );
}
