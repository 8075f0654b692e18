import { keepPreviousData } from "@tanstack/react-query";
import type { Key, ListEventsResponse } from "../api/messages.ts";
import { rpcs } from "../api/rpcs.ts";
import { bounds } from "../bounds.ts";
import { useCell } from "../cell.ts";
import { useServices } from "../services.tsx";
import { useRpcPages } from "../use-rpc.ts";

/** Which events to show. An empty text leaves none out. */
export interface ActivityView {
  /** A part of a key's label, the beginning of its id, or the whole of what was changed. */
  readonly query: string;
  readonly actor: string;
  readonly action: string;
  /** The first and the last local day, such as "2026-11-27". */
  readonly from: string;
  readonly to: string;
}

export const everything: ActivityView = { query: "", actor: "", action: "", from: "", to: "" };

/** The times between which the days of the view are. */
function timesOf({ from, to }: ActivityView): { startTime?: string; endTime?: string } {
  const start = new Date(`${from}T00:00`);
  const end = new Date(`${to}T00:00`);
  end.setDate(end.getDate() + 1);
  return {
    ...(from !== "" && { startTime: start.toISOString() }),
    ...(to !== "" && { endTime: end.toISOString() }),
  };
}

/**
 * The events of a team, newest first. While the page is in view, the first page is read again and
 * again. A search looks for keys first: an event has their ids alone.
 */
export function useActivity(teamId: string, view: ActivityView) {
  const { sessionEnded } = useServices();
  const ended = useCell(sessionEnded);
  const { query, actor, action } = view;
  const isSearch = query !== "";
  const named = { teamId, pageSize: bounds.keyNamesPageSize - 1, showRevoked: true, query };
  const keys = useRpcPages(rpcs.listKeys, named, { enabled: isSearch });
  const found = keys.data?.pages.flatMap((page) => page.keys?.map(({ id }) => id) ?? []) ?? [];
  const activity = useRpcPages(
    rpcs.listEvents,
    {
      ...{ teamId, actor, action, pageSize: bounds.activityPageSize },
      ...(isSearch && { targets: [query.normalize("NFKC").toLowerCase(), ...found] }),
      ...timesOf(view),
    },
    {
      joined: withNewEvents,
      enabled: !isSearch || keys.data !== undefined,
      placeholderData: keepPreviousData,
      refetchInterval: ended ? false : bounds.activityPollMs,
      refetchOnWindowFocus: true,
    },
  );
  if (!isSearch || !keys.isError) return activity;
  const { error, isFetching, refetch } = keys;
  return { ...activity, error, isFetching, refetch, isError: true };
}

export type Activity = ReturnType<typeof useActivity>;

/** The team's newest keys by id, also past ones, to name what an event was done to. */
export function useKeyNames(teamId: string): ReadonlyMap<string, Key> {
  const { data } = useRpcPages(rpcs.listKeys, {
    teamId,
    pageSize: bounds.keyNamesPageSize,
    showRevoked: true,
    query: "",
  });
  return new Map(data?.pages.flatMap(({ keys = [] }) => keys.map((key) => [key.id, key] as const)));
}

/**
 * The events of a first page and, below them, the older ones that were on it before. Returns the
 * new page as it is when events between the two are missing, or there were too many.
 */
function withNewEvents(before: ListEventsResponse, now: ListEventsResponse): ListEventsResponse {
  const { events = [] } = now;
  const { events: known = [] } = before;
  const oldest = events.at(-1)?.id;
  const older = known.findIndex(({ id }) => id === oldest) + 1;
  if (older === 0 || !now.nextPageToken || known.length > bounds.activityEventsMax) return now;
  return { ...before, events: [...events, ...known.slice(older)] };
}
