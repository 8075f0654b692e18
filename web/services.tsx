import { createContext, useContext } from "react";
import { type Caller, type CallOptions, createCaller } from "./api/caller.ts";
import { type Rpc, rpcs } from "./api/rpcs.ts";
import { type Cell, createCell } from "./cell.ts";
import { createStatus, type Status } from "./controls/status.tsx";
import { createLocation, type Location } from "./navigation/location.ts";
import { createTicker, type Ticker } from "./time/ticker.ts";

/** What all of the screen shares. `main.tsx` makes it once. */
export interface Services {
  readonly caller: Caller;
  /** Calls whose answers must not be in the query cache. */
  readonly keys: {
    readonly createKey: Call<typeof rpcs.createKey>;
    readonly listKeys: Call<typeof rpcs.listKeys>;
    readonly revokeKey: Call<typeof rpcs.revokeKey>;
  };
  readonly session: { readonly signOut: Call<typeof rpcs.signOut> };
  /** True while Keyrun refuses this page's session. */
  readonly sessionEnded: Cell<boolean>;
  readonly status: Status;
  readonly location: Location;
  readonly ticker: Ticker;
}

type Call<R> =
  R extends Rpc<infer Input, infer Output> ? (input: Input, options?: CallOptions) => Promise<Output> : never;

export function createServices(window: Window): Services {
  const sessionEnded = createCell(false);
  const caller = createCaller(window.location.origin, sessionEnded, (...request) => fetch(...request));
  return {
    caller,
    keys: {
      createKey: (input, options) => caller.call(rpcs.createKey, input, options),
      listKeys: (input, options) => caller.call(rpcs.listKeys, input, options),
      revokeKey: (input, options) => caller.call(rpcs.revokeKey, input, options),
    },
    session: { signOut: (input, options) => caller.call(rpcs.signOut, input, options) },
    sessionEnded,
    status: createStatus(),
    location: createLocation(window),
    ticker: createTicker(),
  };
}

export const ServicesContext = createContext<Services | null>(null);

export function useServices(): Services {
  const services = useContext(ServicesContext);
  if (services === null) throw new Error("ServicesContext has no provider.");
  return services;
}
