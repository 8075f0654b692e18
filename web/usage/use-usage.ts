import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import type { GetRateLimitResponse } from "../api/messages.ts";
import { rpcs } from "../api/rpcs.ts";
import { bounds } from "../bounds.ts";
import { useCell } from "../cell.ts";
import { useServices } from "../services.tsx";
import { rpcKey, useRpc } from "../use-rpc.ts";
import { usageTone } from "./usage-words.ts";

/**
 * The team's limit, read again and again while the page is in view, and when requests work again.
 * These reads don't count against it.
 */
export function useUsage(teamId: string) {
  const { sessionEnded, ticker } = useServices();
  const ended = useCell(sessionEnded);
  return useRpc(
    rpcs.getRateLimit,
    { teamId },
    {
      refetchInterval: ({ state }) => (ended ? false : nextReadMs(state.data, ticker.unixMs())),
      refetchOnWindowFocus: true,
    },
  );
}

function nextReadMs(usage: GetRateLimitResponse | undefined, nowMs: number): number {
  const rateLimit = usage?.rateLimit;
  if (rateLimit?.resetTime === undefined || usageTone(rateLimit) !== "reached") return bounds.usagePollMs;
  const waitMs = Date.parse(rateLimit.resetTime) - nowMs;
  return Math.min(Math.max(waitMs, bounds.usagePollMsMin), bounds.usagePollMs);
}

/** Returns a function that reads the usage at once, for use after a test request. */
export function useUsageRefresh(teamId: string): () => void {
  const client = useQueryClient();
  return useCallback(() => {
    void client.invalidateQueries({ queryKey: rpcKey(rpcs.getRateLimit, { teamId }) });
  }, [client, teamId]);
}
