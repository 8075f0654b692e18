import type { Failure } from "../api/failure.ts";
import { FailureNote } from "../controls/failure-note.tsx";
import { MessagePage } from "../controls/message-page.tsx";

/** The page when the session could not be read. Without it the screen knows no team to show. */
export function UnavailablePage({ failure, onRetry }: { failure: Failure; onRetry(): void }) {
  return (
    <MessagePage title="Keyrun can’t be reached">
      <FailureNote
        failure={failure}
        action={
          <button type="button" className="button button-small" onClick={onRetry}>
            Try again
          </button>
        }
      >
        Couldn’t load your teams. Nothing was changed.
      </FailureNote>
    </MessagePage>
  );
}
