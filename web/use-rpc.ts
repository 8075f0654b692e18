import {
  type InfiniteData,
  type UseInfiniteQueryOptions,
  type UseQueryOptions,
  useInfiniteQuery,
  useQuery,
} from "@tanstack/react-query";
import { useState } from "react";
import type { Rpc } from "./api/rpcs.ts";
import { useServices } from "./services.tsx";

/** Where the cache of answers keeps those of a call. A key with fewer fields fits more calls. */
export type RpcKey<Input> = readonly [path: string, input: Partial<Input>];

export function rpcKey<I, O>({ path }: Rpc<I, O>, input: Partial<I>): RpcKey<I> {
  return [path, input];
}

type QueryOptions<O> = Omit<UseQueryOptions<O, Error, O>, "queryKey" | "queryFn">;

/** The answer of an RPC, from the cache or from Keyrun. */
export function useRpc<I, O>(rpc: Rpc<I, O>, input: I, options: QueryOptions<O> = {}) {
  const { caller } = useServices();
  const read = useQuery({
    ...options,
    queryKey: rpcKey(rpc, input),
    queryFn: ({ signal }) => caller.call(rpc, input, { signal }),
  });
  return useLastError(read);
}

type Pages<O> = InfiniteData<O, string>;
type PagesOptions<I, O> = Omit<
  UseInfiniteQueryOptions<O, Error, Pages<O>, RpcKey<I>, string>,
  "queryKey" | "queryFn" | "initialPageParam" | "getNextPageParam"
> & {
  /**
   * When the list is read again, only its first page is, and the later ones stay. Returns the first
   * page with what is new, up to where the later ones begin. If those no longer follow, returns the
   * new page as it is, and they are read as well.
   */
  readonly joined?: (before: O, now: O) => O;
};

/** The pages of a list that have been read so far (AIP-158). */
export function useRpcPages<I extends { pageToken?: string }, O extends { nextPageToken?: string }>(
  rpc: Rpc<I, O>,
  input: Omit<I, "pageToken">,
  { joined, ...options }: PagesOptions<I, O> = {},
) {
  const { caller } = useServices();
  const read = useInfiniteQuery({
    ...options,
    queryKey: rpcKey(rpc, input as Partial<I>),
    async queryFn({ client, queryKey, signal, pageParam }) {
      const known = joined && client.getQueryData<Pages<O>>(queryKey);
      const before = known?.pages[known.pageParams.indexOf(pageParam)];
      if (before && pageParam !== "") return before;
      const now = await caller.call(rpc, { ...input, pageToken: pageParam } as I, { signal });
      return before && joined ? joined(before, now) : now;
    },
    initialPageParam: "",
    getNextPageParam: ({ nextPageToken }) => nextPageToken || undefined,
  });
  return useLastError(read);
}

interface Read {
  readonly data: unknown;
  readonly error: Error | null;
  readonly errorUpdateCount: number;
}

/**
 * The read, with its last error until it has an answer. React Query forgets the error of a read
 * without an answer as soon as it reads again. What says so on the page would go, with the focus on
 * its button, and come back, to be read out again.
 */
function useLastError<R extends Read>(read: R) {
  const [last, setLast] = useState<Error | null>(null);
  if (read.error !== null && read.error !== last) setLast(read.error);
  const failedBefore = read.data === undefined && read.errorUpdateCount > 0;
  const error = failedBefore ? (read.error ?? last) : read.error;
  return { ...read, error, isError: error !== null };
}
