import { QueryClient } from "@tanstack/react-query";
import { bounds } from "../bounds.ts";
import { isTransient } from "./failure.ts";

/**
 * The cache of answers to reads. It never holds a key's value: the call that creates a key bypasses
 * it.
 */
export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // A read without a network fails at once and says so, instead of waiting silently.
        networkMode: "always",
        retry: (failures, error) => failures < 1 && isTransient(error),
        retryDelay: bounds.readRetryMs,
        refetchOnWindowFocus: false,
      },
    },
  });
}
