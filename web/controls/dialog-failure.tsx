import { type ReactNode, useLayoutEffect, useRef } from "react";
import type { Failure } from "../api/failure.ts";
import { FailureNote } from "./failure-note.tsx";

/** Says why what a dialog tried has failed. It stands at the end, so the dialog scrolls to it. */
export function DialogFailure({ failure, children }: { failure: Failure; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  // Again for each attempt that fails.
  useLayoutEffect(() => {
    if (failure) place.current?.scrollIntoView({ block: "nearest" });
  }, [failure]);
  return (
    <div ref={place} className="dialog-failure">
      <FailureNote failure={failure}>{children}</FailureNote>
    </div>
  );
}
