import { createConnectQueryKey, useQuery } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { bounds } from "../bounds.ts";
import { useCell } from "../cell.ts";
import { useServices } from "../services.tsx";

/**
 * The team's limit, read again and again while the page is in view. These reads don't count against
 * it.
 */
export function useUsage(teamId: string) {
  const { sessionEnded } = useServices();
  const ended = useCell(sessionEnded);
  return useQuery(
    TeamService.method.getRateLimit,
    { teamId },
    { refetchInterval: ended ? false : bounds.usagePollMs, refetchOnWindowFocus: true },
  );
}

/** Returns a function that reads the usage at once, for use after a test request. */
export function useUsageRefresh(teamId: string): () => void {
  const client = useQueryClient();
  return useCallback(() => {
    const schema = TeamService.method.getRateLimit;
    void client.invalidateQueries({
      queryKey: createConnectQueryKey({ schema, cardinality: "finite", input: { teamId } }),
    });
  }, [client, teamId]);
}
