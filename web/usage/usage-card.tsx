import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useEffect, useRef } from "react";
import type { RateLimit } from "#gen/keyrun/v1/rate_limit_pb.ts";
import type { Team } from "#gen/keyrun/v1/team_pb.ts";
import { planName } from "../frame/team-words.ts";
import { useServices } from "../services.tsx";
import { useTicking } from "../time/ticker.ts";
import { leftInWords, limitInWords, limitReachedInWords, nextSlotInWords, usageTone } from "./usage-words.ts";
import { useUsage } from "./use-usage.ts";

interface UsageCardProps {
  readonly teamId: string;
  /** Undefined while it is loading. */
  readonly team: Team | undefined;
}

/** The team's plan, and what is left of its limit now. */
export function UsageCard({ teamId, team }: UsageCardProps) {
  const usage = useUsage(teamId);
  const rateLimit = usage.data?.rateLimit;
  useLimitReachedStatus(rateLimit);
  return (
    <section className="card usage" aria-labelledby="usage-title">
      <h2 id="usage-title" className="visually-hidden">
        Plan and usage
      </h2>
      <div>
        <p>
          {team !== undefined && rateLimit !== undefined && (
            <>
              <strong>{planName(team.plan)} plan</strong>
              <span className="muted">
                {" "}
                · {limitInWords(rateLimit.limit)}, shared by all keys of the team
              </span>
            </>
          )}
          {/* Keeps the line's height until there is something to say. */}
          {"\u200b"}
        </p>
        <p className="usage-left">
          {rateLimit !== undefined && <Left rateLimit={rateLimit} />}
          {rateLimit === undefined && usage.isError && (
            <span className="muted">The usage can’t be shown right now</span>
          )}
          {"\u200b"}
        </p>
      </div>
      <UsageMeter rateLimit={rateLimit} />
    </section>
  );
}

function Left({ rateLimit }: { rateLimit: RateLimit }) {
  const { ticker } = useServices();
  const next = useTicking(ticker, (nowMs) => nextSlotInWords(rateLimit, nowMs));
  return (
    <>
      <strong>{leftInWords(rateLimit)}</strong>
      {next !== "" && <span className="muted"> · {next}</span>}
    </>
  );
}

declare module "react" {
  interface CSSProperties {
    /** The share of the limit that is left: how far the bar is filled. */
    "--left"?: number;
  }
}

/** Not a live region: a screen reader would announce every change. */
function UsageMeter({ rateLimit }: { rateLimit: RateLimit | undefined }) {
  if (rateLimit === undefined) return <div className="meter-place" />;
  const { limit, remaining } = rateLimit;
  return (
    <meter
      aria-label="Requests left this minute"
      data-tone={usageTone(rateLimit)}
      min={0}
      max={limit}
      low={limit * 0.2}
      high={limit * 0.8}
      optimum={limit}
      value={remaining}
      style={{ "--left": remaining / limit }}
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
    if (reached && !said.current) status.say(limitReachedInWords(timestampMs(rateLimit.resetTime)));
    said.current = reached;
  }, [rateLimit, status]);
}
