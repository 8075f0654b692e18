import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { rpcs } from "../api/rpcs.ts";
import { bounds } from "../bounds.ts";
import { useCell } from "../cell.ts";
import { useServices } from "../services.tsx";
import { rpcKey, useRpc } from "../use-rpc.ts";

/**
 * The team's limit, read again and again while the page is in view. These reads don't count against
 * it.
 */
export function useUsage(teamId: string) {
  const { sessionEnded } = useServices();
  const ended = useCell(sessionEnded);
  return useRpc(
    rpcs.getRateLimit,
    { teamId },
    { refetchInterval: ended ? false : bounds.usagePollMs, refetchOnWindowFocus: true },
  );
}

/** Returns a function that reads the usage at once, for use after a test request. */
export function useUsageRefresh(teamId: string): () => void {
  const client = useQueryClient();
  return useCallback(() => {
    void client.invalidateQueries({ queryKey: rpcKey(rpcs.getRateLimit, { teamId }) });
  }, [client, teamId]);
}
