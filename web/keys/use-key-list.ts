import { createConnectQueryKey, useInfiniteQuery } from "@connectrpc/connect-query";
import { keepPreviousData, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { bounds } from "../bounds.ts";
import { useCell } from "../cell.ts";
import { useServices } from "../services.tsx";
import { type KeyPages, withCreated, withRevoked } from "./key-pages.ts";

interface KeyListQuery {
  readonly teamId: string;
  readonly showRevoked: boolean;
  /** Whether live updates are: then the list is read more often, and whenever the page comes into view. */
  readonly paused: boolean;
}

/** The team's keys, page by page. */
export function useKeyList({ teamId, showRevoked, paused }: KeyListQuery) {
  const { sessionEnded } = useServices();
  const ended = useCell(sessionEnded);
  return useInfiniteQuery(
    KeyService.method.listKeys,
    { teamId, pageSize: bounds.keysPageSize, showRevoked, pageToken: "" },
    {
      pageParamKey: "pageToken",
      getNextPageParam: (last) => last.nextPageToken || undefined,
      // The list stays in sight while the one with or without revoked keys is read.
      placeholderData: keepPreviousData,
      refetchInterval: ended ? false : paused ? bounds.pausedListRefreshMs : bounds.listRefreshMs,
      refetchOnWindowFocus: paused ? "always" : false,
    },
  );
}

/** What changes the lists of a team that are in the cache. */
export interface KeyListWriter {
  created(key: Key): void;
  revoked(key: Key): void;
  /** Reads the lists again, from a moment after this call. */
  refresh(): Promise<void>;
}

export function useKeyListWriter(teamId: string): KeyListWriter {
  const client = useQueryClient();
  return useMemo(() => {
    const lists = {
      queryKey: createConnectQueryKey({
        schema: KeyService.method.listKeys,
        cardinality: "infinite",
        input: { teamId },
      }),
    };
    function change(apply: (pages: KeyPages) => KeyPages) {
      client.setQueriesData<KeyPages>(lists, (pages) => pages && apply(pages));
      // An answer that is on its way may be older than the change, and would undo it.
      if (client.isFetching(lists) > 0) void client.invalidateQueries(lists);
    }
    return {
      created: (key) => change((pages) => withCreated(pages, key)),
      revoked: (key) => change((pages) => withRevoked(pages, key)),
      async refresh() {
        // The first read is never cut short, but what it answers may be too old.
        if (client.isFetching(lists) > 0) await client.refetchQueries(lists, { cancelRefetch: false });
        await client.refetchQueries(lists);
      },
    };
  }, [client, teamId]);
}
