import { QueryClient } from "@tanstack/react-query";
import { bounds } from "../bounds.ts";
import { isPassing } from "./failure.ts";

/** The cache of what was read. It never holds a key's value: keys are created past it. */
export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // Offline, a read fails and says so, rather than waiting in silence.
        networkMode: "always",
        retry: (failures, error) => failures < 1 && isPassing(error),
        retryDelay: bounds.readRetryMs,
        refetchOnWindowFocus: false,
      },
    },
  });
}
