import { useLayoutEffect } from "react";
import { useServices } from "../../services.tsx";

/**
 * While `guarded`, leaving the page makes the browser ask. Going elsewhere on the screen is refused
 * and calls `onRefused`.
 */
export function useLeaveGuard(guarded: boolean, onRefused: () => void = () => {}) {
  const { location } = useServices();
  // Before the paint, so that nobody sees something that is not guarded yet.
  useLayoutEffect(() => {
    if (!guarded) return;
    const unblock = location.block(() => {
      onRefused();
      return false;
    });
    const onBeforeUnload = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", onBeforeUnload);
    return () => {
      unblock();
      window.removeEventListener("beforeunload", onBeforeUnload);
    };
  });
}
