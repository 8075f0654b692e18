import { useEffect, useState } from "react";

/** True once `active` has been true for so long. */
export function useDelayed(active: boolean, delayMs: number): boolean {
  const [passed, setPassed] = useState(false);
  useEffect(() => {
    setPassed(false);
    if (!active) return;
    const timer = setTimeout(() => setPassed(true), delayMs);
    return () => clearTimeout(timer);
  }, [active, delayMs]);
  return active && passed;
}
