import type { Failure } from "../../api/failure.ts";
import { DialogFailure } from "../../controls/dialog-failure.tsx";

interface AttemptFailureProps {
  readonly failure: Failure;
  /** What was tried: "create the key". */
  readonly what: string;
  /** Why trying again does no harm. */
  readonly safe: string;
}

/** Why an attempt failed, and whether it may be repeated. */
export function AttemptFailure({ failure, what, safe }: AttemptFailureProps) {
  return (
    <DialogFailure failure={failure}>
      {failure.signedOut && "You were signed out. Sign in in another tab, then try again."}
      {!failure.signedOut && failure.mayHaveHappened && (
        <>
          Couldn’t {what}: {failure.message} {safe}
        </>
      )}
      {!failure.signedOut && !failure.mayHaveHappened && failure.message}
    </DialogFailure>
  );
}
