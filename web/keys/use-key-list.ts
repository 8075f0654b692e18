import { keepPreviousData, type Query, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Key } from "../api/messages.ts";
import { rpcs } from "../api/rpcs.ts";
import { bounds } from "../bounds.ts";
import { useCell } from "../cell.ts";
import { useServices } from "../services.tsx";
import { type RpcKey, rpcKey, useRpcPages } from "../use-rpc.ts";
import { type KeyPages, withChanged, withCreated, withUsed } from "./key-pages.ts";

interface KeyListQuery {
  readonly teamId: string;
  readonly past: boolean;
  readonly query: string;
  /**
   * True while live updates are paused. Then the list is read more often, and whenever the page
   * comes into view.
   */
  readonly paused: boolean;
}

/**
 * The team's keys that fit the query, page by page: the past ones, or the active ones. For another
 * query, the read for the one before is aborted.
 */
export function useKeyList({ teamId, past, query, paused }: KeyListQuery) {
  const { sessionEnded } = useServices();
  const ended = useCell(sessionEnded);
  return useRpcPages(
    rpcs.listKeys,
    { teamId, pageSize: bounds.keysPageSize, onlyRevoked: past, query },
    {
      // The current list stays visible while the one of another view is loading.
      placeholderData: keepPreviousData,
      refetchInterval: ended ? false : paused ? bounds.pausedListRefreshMs : bounds.listRefreshMs,
      refetchOnWindowFocus: paused ? "always" : false,
    },
  );
}

/** Changes the lists of a team in the cache. */
export interface KeyListWriter {
  created(key: Key): void;
  /** The key was changed, or has ended. */
  changed(key: Key): void;
  used(key: Key): void;
  /** Reads the lists again. What it reads is no older than this call. */
  refresh(): Promise<void>;
}

export function useKeyListWriter(teamId: string): KeyListWriter {
  const client = useQueryClient();
  return useMemo(() => {
    const lists = { queryKey: rpcKey(rpcs.listKeys, { teamId }) };
    function apply(change: (pages: KeyPages, list: Query) => KeyPages) {
      for (const list of client.getQueryCache().findAll(lists)) {
        client.setQueryData<KeyPages>(list.queryKey, (pages) => pages && change(pages, list));
      }
    }
    function change(changed: (pages: KeyPages, list: Query) => KeyPages) {
      apply(changed);
      void client.invalidateQueries({
        ...lists,
        // A read that is under way may be older than the change and would undo it, so start it
        // again. And only the server knows which new keys fit a query, or come into the past ones.
        predicate: (list) => list.state.fetchStatus === "fetching" || !isOfAll(list),
      });
    }
    return {
      created: (key) => change((pages, list) => (isOfAll(list) ? withCreated(pages, key) : pages)),
      changed: (key) => change((pages) => withChanged(pages, key)),
      // A read that is under way has this use too, or the next event brings it.
      used: (key) => apply((pages) => withUsed(pages, key)),
      async refresh() {
        // React Query never cancels a first read. Its answer may be too old, so wait and read
        // again.
        if (client.isFetching(lists) > 0) await client.refetchQueries(lists, { cancelRefetch: false });
        await client.invalidateQueries(lists);
      },
    };
  }, [client, teamId]);
}

/** True for the list of all active keys, rather than of past ones or of those that fit a query. */
function isOfAll(list: Query): boolean {
  // The key is that of a list of keys, because `lists` selects no others.
  const [, input] = list.queryKey as RpcKey<{ query: string; onlyRevoked?: boolean }>;
  return input.query === "" && !input.onlyRevoked;
}
