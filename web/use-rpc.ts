import {
  type InfiniteData,
  type UseInfiniteQueryOptions,
  type UseQueryOptions,
  useInfiniteQuery,
  useQuery,
} from "@tanstack/react-query";
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
  return useQuery({
    ...options,
    queryKey: rpcKey(rpc, input),
    queryFn: ({ signal }) => caller.call(rpc, input, { signal }),
  });
}

type Pages<O> = InfiniteData<O, string>;
type PagesOptions<I, O> = Omit<
  UseInfiniteQueryOptions<O, Error, Pages<O>, RpcKey<I>, string>,
  "queryKey" | "queryFn" | "initialPageParam" | "getNextPageParam"
>;

/** The pages of a list that have been read so far (AIP-158). */
export function useRpcPages<I extends { pageToken?: string }, O extends { nextPageToken: string }>(
  rpc: Rpc<I, O>,
  input: Omit<I, "pageToken">,
  options: PagesOptions<I, O> = {},
) {
  const { caller } = useServices();
  return useInfiniteQuery({
    ...options,
    queryKey: rpcKey(rpc, input as Partial<I>),
    queryFn: ({ signal, pageParam }) => caller.call(rpc, { ...input, pageToken: pageParam } as I, { signal }),
    initialPageParam: "",
    getNextPageParam: ({ nextPageToken }) => nextPageToken || undefined,
  });
}
