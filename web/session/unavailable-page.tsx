import type { Failure } from "../api/failure.ts";
import { FailureNote } from "../controls/failure-note.tsx";
import { MessagePage } from "../frame/message-page.tsx";

/** The session could not be read, so there is nothing to show around. */
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
