import { keepPreviousData } from "@tanstack/react-query";
import { rpcs } from "../../api/rpcs.ts";
import { bounds } from "../../bounds.ts";
import { useCell } from "../../cell.ts";
import { useServices } from "../../services.tsx";
import { useTicking } from "../../time/ticker.ts";
import { useRpc } from "../../use-rpc.ts";
import { spanStartMs, type UsageSpan, usageSpans } from "./usage-span.ts";

/** Of one key alone, or beside the team's usage of each of some keys. */
type OfKeys = { readonly keyId: string } | { readonly keyIds: string[] };

/** The usage of a team's keys, read again and again while the page is in view. */
export function useUsageHistory(teamId: string, span: UsageSpan, ofKeys?: OfKeys) {
  const { sessionEnded, ticker } = useServices();
  const ended = useCell(sessionEnded);
  const startTime = useTicking(ticker, (nowMs) => new Date(spanStartMs(span, nowMs)).toISOString());
  return useRpc(
    rpcs.getUsage,
    { teamId, startTime, step: usageSpans[span].step, ...ofKeys },
    {
      // The old bars stay while those of the next hour or of another span are loading.
      placeholderData: keepPreviousData,
      refetchInterval: ended ? false : bounds.usageHistoryPollMs,
      refetchOnWindowFocus: true,
    },
  );
}
