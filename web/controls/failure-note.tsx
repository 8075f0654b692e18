import type { ReactNode } from "react";
import type { Failure } from "../api/failure.ts";
import { CopyButton } from "./copy-button.tsx";
import { Icon } from "./icon.tsx";

interface FailureNoteProps {
  readonly failure: Failure;
  /** What failed, as a sentence. */
  readonly children: ReactNode;
  /** Shown at the end; usually "Try again". */
  readonly action?: ReactNode;
}

/**
 * Says what failed and what to do: check the connection where no answer came, or else tell the
 * operator the code and the request id that find it in the log. Who is signed out has nothing to
 * tell the operator: the words say to sign in.
 */
export function FailureNote({ failure, children, action }: FailureNoteProps) {
  return (
    <div className="note" role="alert">
      <Icon name="warning" />
      <div className="note-body">
        <p>{children}</p>
        {!failure.signedOut && <FailureFacts failure={failure} />}
      </div>
      {action}
    </div>
  );
}

function FailureFacts({ failure }: Pick<FailureNoteProps, "failure">) {
  return (
    <p className="note-facts">
      {failure.reason === null ? (
        <span>No answer of Keyrun came. Check your connection, then try again.</span>
      ) : (
        <>
          <span>If it goes on, tell whoever runs Keyrun:</span>
          <span>
            Code <code>{failure.code}</code>
          </span>
        </>
      )}
      {failure.requestId !== null && (
        <span className="note-request">
          Request id <code>{failure.requestId}</code>
          <CopyButton text={failure.requestId} what="Request id" className="icon-button icon-button-small" />
        </span>
      )}
    </p>
  );
}
