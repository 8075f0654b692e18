import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { createContext, useContext } from "react";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { createTransports } from "./api/transports.ts";
import { type Cell, createCell } from "./cell.ts";
import { createStatus, type Status } from "./controls/status.tsx";
import { createLocation, type Location } from "./navigation/location.ts";
import { createTicker, type Ticker } from "./time/ticker.ts";

/** What all of the screen shares. `main.tsx` makes it once. */
export interface Services {
  readonly transport: Transport;
  /** For calls whose answers must not be in the query cache. */
  readonly keys: Client<typeof KeyService>;
  readonly session: Client<typeof SessionService>;
  /** For the stream of changes, which has no deadline. */
  readonly keyChanges: Client<typeof KeyService>;
  /** True while Keyrun refuses this page's session. */
  readonly sessionEnded: Cell<boolean>;
  readonly status: Status;
  readonly location: Location;
  readonly ticker: Ticker;
}

export function createServices(window: Window): Services {
  const sessionEnded = createCell(false);
  const transports = createTransports(window.location.origin, sessionEnded);
  return {
    transport: transports.unary,
    keys: createClient(KeyService, transports.unary),
    session: createClient(SessionService, transports.unary),
    keyChanges: createClient(KeyService, transports.stream),
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
