import { keepPreviousData } from "@tanstack/react-query";
import type { ListEventsResponse } from "#gen/keyrun/v1/audit_service_pb.ts";
import { lateRpcs } from "../api/late-rpcs.ts";
import { rpcs } from "../api/rpcs.ts";
import { bounds } from "../bounds.ts";
import { useCell } from "../cell.ts";
import { useServices } from "../services.tsx";
import { useRpcPages } from "../use-rpc.ts";

/** Which events to show. An empty text leaves none out. */
export interface ActivityView {
  readonly actor: string;
  readonly action: string;
}

/**
 * The events of a team, newest first. While the page is in view, the first page is read again and
 * again.
 */
export function useActivity(teamId: string, view: ActivityView) {
  const { sessionEnded } = useServices();
  const ended = useCell(sessionEnded);
  return useRpcPages(
    lateRpcs.listEvents,
    { teamId, ...view, pageSize: bounds.activityPageSize },
    {
      joined: withNewEvents,
      placeholderData: keepPreviousData,
      refetchInterval: ended ? false : bounds.activityPollMs,
      refetchOnWindowFocus: true,
    },
  );
}

export type Activity = ReturnType<typeof useActivity>;

/** The team's newest keys by id, also past ones, to name what an event was done to. */
export function useKeyNames(teamId: string): ReadonlyMap<string, { label: string; redactedValue: string }> {
  const { data } = useRpcPages(rpcs.listKeys, {
    teamId,
    pageSize: bounds.keyNamesPageSize,
    showRevoked: true,
    query: "",
  });
  return new Map(data?.pages.flatMap(({ keys }) => keys.map((key) => [key.id, key] as const)));
}

/**
 * The events of a first page and, below them, the older ones that were on it before. Returns the
 * new page as it is when events between the two are missing, or there were too many.
 */
function withNewEvents(before: ListEventsResponse, now: ListEventsResponse): ListEventsResponse {
  const oldest = now.events.at(-1)?.id;
  const older = before.events.findIndex(({ id }) => id === oldest) + 1;
  if (older === 0 || !now.nextPageToken || before.events.length > bounds.activityEventsMax) return now;
  return { ...before, events: [...now.events, ...before.events.slice(older)] };
}
