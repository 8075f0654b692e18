import { type Cell, createCell, useCell } from "../cell.ts";
import { type Route, routeOf } from "./routes.ts";

/** The path in the address bar, and the ways to change it. */
export interface Location {
  readonly path: Cell<string>;
  /** Goes to a path of the screen without loading the document again. */
  go(path: string, how?: { replace: boolean }): void;
  /**
   * Asks `mayLeave` before each change of the path, also by the browser's Back and Forward. The
   * path stays when it returns false. Returns the function that ends this.
   */
  block(mayLeave: () => boolean): () => void;
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
    block(newMayLeave) {
      mayLeave = newMayLeave;
      return () => {
        mayLeave = () => true;
      };
    },
  };
}

/** The route of the current path. */
export function useRoute(location: Location): Route {
  return routeOf(useCell(location.path));
}
