import { type Cell, createCell, useCell } from "../cell.ts";
import { type Route, routeOf } from "./routes.ts";

/** The address, as the screen shows it. */
export interface Location {
  readonly path: Cell<string>;
  /** Goes to a path of the screen without loading the document again. */
  go(path: string, how?: { replace: boolean }): void;
  /**
   * While held, leaving asks `mayLeave` first; where it says no, the address stays, also under the browser's own
   * Back and Forward. Answers with what lets go.
   */
  hold(mayLeave: () => boolean): () => void;
}

export function createLocation(window: Window): Location {
  const path = createCell(window.location.pathname);
  let mayLeave = () => true;
  window.addEventListener("popstate", () => {
    if (window.location.pathname === path.get()) return;
    if (mayLeave()) path.set(window.location.pathname);
    else window.history.pushState(null, "", path.get());
  });
  return {
    path,
    go(next, how = { replace: false }) {
      if (!mayLeave()) return;
      if (how.replace) window.history.replaceState(null, "", next);
      else window.history.pushState(null, "", next);
      path.set(window.location.pathname);
    },
    hold(asked) {
      mayLeave = asked;
      return () => {
        mayLeave = () => true;
      };
    },
  };
}

/** The route of the present address. */
export function useRoute(location: Location): Route {
  return routeOf(useCell(location.path));
}
