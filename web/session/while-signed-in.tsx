import type { ReactNode } from "react";
import { useCell } from "../cell.ts";
import { Lazy } from "../lazy/lazy.tsx";
import { useServices } from "../services.tsx";

/**
 * What a page holds, unless the session is over: then it says so, and hides the rest. A new key in
 * a dialog is not part of it, because it must not be lost.
 */
export function WhileSignedIn({ children }: { children: ReactNode }) {
  const ended = useCell(useServices().sessionEnded);
  return (
    <>
      <div role="status">{ended && <Lazy>{({ SessionEndedNote }) => <SessionEndedNote />}</Lazy>}</div>
      {!ended && children}
    </>
  );
}
