import { useEffect, useRef } from "react";
import type { RateLimit, Team } from "../api/messages.ts";
import { planName } from "../frame/team-words.ts";
import { useServices } from "../services.tsx";
import { timeOfDay } from "../time/local-format.ts";
import { useTicking } from "../time/ticker.ts";
import { QuotaMeter } from "./quota-meter.tsx";
import { UsageFrame } from "./usage-frame.tsx";
import {
  limitInWords,
  limitReachedInWords,
  nextRequestInWords,
  usageTone,
  usedInWords,
  usedRequests,
} from "./usage-words.ts";
import { useUsage } from "./use-usage.ts";

interface UsageCardProps {
  readonly teamId: string;
  /** Undefined while it is loading. */
  readonly team: Team | undefined;
}

/** The team's plan, and how much of its limit is used now. */
export function UsageCard({ teamId, team }: UsageCardProps) {
  const usage = useUsage(teamId);
  const rateLimit = usage.data?.rateLimit;
  useLimitReachedStatus(rateLimit);
  // The numbers are old if they could not be read again.
  const readMs = usage.isError ? usage.dataUpdatedAt : null;
  return (
    <UsageFrame
      plan={
        team !== undefined &&
        rateLimit !== undefined && (
          <>
            <strong>{planName(team)} plan</strong>
            <span className="muted"> · {limitInWords(rateLimit.limit ?? 0)}, </span>
            <span className="muted usage-shared">shared by all keys of the team</span>
          </>
        )
      }
      used={
        rateLimit !== undefined ? (
          <Used rateLimit={rateLimit} readMs={readMs} />
        ) : (
          usage.isError && <span className="muted">The usage can’t be shown right now</span>
        )
      }
      meter={rateLimit !== undefined && <UsageMeter rateLimit={rateLimit} stale={readMs !== null} />}
      quota={usage.data?.quota && <QuotaMeter quota={usage.data.quota} stale={readMs !== null} />}
    />
  );
}

/** `readMs` is when the numbers were read, if they are old; null otherwise. */
function Used({ rateLimit, readMs }: { rateLimit: RateLimit; readMs: number | null }) {
  const { ticker } = useServices();
  const next = useTicking(ticker, (nowMs) => nextRequestInWords(rateLimit, nowMs));
  if (readMs !== null) {
    return (
      <span className="muted">
        {usedInWords(rateLimit)} at {timeOfDay(readMs)}, no newer numbers
      </span>
    );
  }
  return (
    <>
      <strong>{usedInWords(rateLimit)}</strong> this minute
      {next !== "" && <span className="usage-next"> · {next}</span>}
    </>
  );
}

declare module "react" {
  interface CSSProperties {
    /** The share of the limit that is used: how far the bar is filled. */
    "--used"?: number;
  }
}

/** Not a live region: a screen reader would announce every change. */
function UsageMeter({ rateLimit, stale }: { rateLimit: RateLimit; stale: boolean }) {
  const { limit = 0 } = rateLimit;
  const used = usedRequests(rateLimit);
  return (
    <meter
      aria-label="Requests used this minute"
      aria-valuetext={usedInWords(rateLimit)}
      data-tone={stale ? "stale" : usageTone(rateLimit)}
      min={0}
      max={limit}
      low={limit * 0.8}
      high={limit}
      optimum={0}
      value={used}
      style={{ "--used": limit === 0 ? 1 : used / limit }}
    />
  );
}

/** Announces once that the limit is reached, and again only after it was not. */
function useLimitReachedStatus(rateLimit: RateLimit | undefined) {
  const { status } = useServices();
  const said = useRef(false);
  useEffect(() => {
    if (rateLimit?.resetTime === undefined) return;
    const reached = usageTone(rateLimit) === "reached";
    if (reached && !said.current) status.say(limitReachedInWords(Date.parse(rateLimit.resetTime)));
    said.current = reached;
  }, [rateLimit, status]);
}
