import type { Failure } from "../api/failure.ts";
import { FailureNote } from "../controls/failure-note.tsx";
import { type Read, Retry } from "../controls/list-buttons.tsx";
import { MessagePage } from "../controls/message-page.tsx";

/** The page when the session could not be read. Without it the screen knows no team to show. */
export function UnavailablePage({ failure, read }: { failure: Failure; read: Read }) {
  return (
    <MessagePage title="Keyrun can’t be reached">
      <FailureNote failure={failure} action={<Retry read={read} />}>
        Couldn’t load your teams. Nothing was changed.
      </FailureNote>
    </MessagePage>
  );
}
