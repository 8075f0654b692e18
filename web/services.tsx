import { createContext, useContext } from "react";
import { type Caller, createCaller } from "./api/caller.ts";
import { type Cell, createCell } from "./cell.ts";
import { createStatus, type Status } from "./controls/status.tsx";
import { createLocation, type Location } from "./navigation/location.ts";
import { createTicker, type Ticker } from "./time/ticker.ts";

/** What all of the screen shares. `main.tsx` makes it once. */
export interface Services {
  readonly caller: Caller;
  /** True while Keyrun refuses this page's session. */
  readonly sessionEnded: Cell<boolean>;
  readonly status: Status;
  readonly location: Location;
  readonly ticker: Ticker;
  /** What calls the command line of this Keyrun, such as `./keyrun`. */
  readonly command: string;
}

export function createServices(window: Window): Services {
  const sessionEnded = createCell(false);
  const caller = createCaller(window.location.origin, sessionEnded, (...request) => fetch(...request));
  return {
    caller,
    sessionEnded,
    status: createStatus(),
    location: createLocation(window),
    ticker: createTicker(),
    command: commandIn(window.document),
  };
}

/** The server writes it into the document. */
function commandIn(document: Document): string {
  return document.querySelector<HTMLMetaElement>('meta[name="keyrun-command"]')?.content ?? "keyrun";
}

export const ServicesContext = createContext<Services | null>(null);

export function useServices(): Services {
  const services = useContext(ServicesContext);
  if (services === null) throw new Error("ServicesContext has no provider.");
  return services;
}
