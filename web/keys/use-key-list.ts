import { keepPreviousData, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { rpcs } from "../api/rpcs.ts";
import { bounds } from "../bounds.ts";
import { useCell } from "../cell.ts";
import { useServices } from "../services.tsx";
import { rpcKey, useRpcPages } from "../use-rpc.ts";
import { type KeyPages, withCreated, withRevoked } from "./key-pages.ts";

interface KeyListQuery {
  readonly teamId: string;
  readonly showRevoked: boolean;
  /**
   * True while live updates are paused. Then the list is read more often, and whenever the page
   * comes into view.
   */
  readonly paused: boolean;
}

/** The team's keys, page by page. */
export function useKeyList({ teamId, showRevoked, paused }: KeyListQuery) {
  const { sessionEnded } = useServices();
  const ended = useCell(sessionEnded);
  return useRpcPages(
    rpcs.listKeys,
    { teamId, pageSize: bounds.keysPageSize, showRevoked },
    {
      // The current list stays visible while the one with or without revoked keys is loading.
      placeholderData: keepPreviousData,
      refetchInterval: ended ? false : paused ? bounds.pausedListRefreshMs : bounds.listRefreshMs,
      refetchOnWindowFocus: paused ? "always" : false,
    },
  );
}

/** Changes the lists of a team in the cache. */
export interface KeyListWriter {
  created(key: Key): void;
  revoked(key: Key): void;
  /** Reads the lists again. What it reads is no older than this call. */
  refresh(): Promise<void>;
}

export function useKeyListWriter(teamId: string): KeyListWriter {
  const client = useQueryClient();
  return useMemo(() => {
    const lists = { queryKey: rpcKey(rpcs.listKeys, { teamId }) };
    function change(apply: (pages: KeyPages) => KeyPages) {
      client.setQueriesData<KeyPages>(lists, (pages) => pages && apply(pages));
      // A read that is under way may be older than the change and would undo it, so start it again.
      if (client.isFetching(lists) > 0) void client.invalidateQueries(lists);
    }
    return {
      created: (key) => change((pages) => withCreated(pages, key)),
      revoked: (key) => change((pages) => withRevoked(pages, key)),
      async refresh() {
        // React Query never cancels a first read. Its answer may be too old, so wait and read
        // again.
        if (client.isFetching(lists) > 0) await client.refetchQueries(lists, { cancelRefetch: false });
        await client.refetchQueries(lists);
      },
    };
  }, [client, teamId]);
}
