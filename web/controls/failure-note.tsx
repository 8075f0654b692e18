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

/** Says what failed, with the code and the request id that find it in the operator's log. */
export function FailureNote({ failure, children, action }: FailureNoteProps) {
  return (
    <div className="note" role="alert">
      <Icon name="warning" />
      <div className="note-body">
        <p>{children}</p>
        <p className="note-facts">
          <span>
            Code <code>{failure.code}</code>
          </span>
          {failure.requestId !== null && (
            <span className="note-request">
              Request id <code>{failure.requestId}</code>
              <CopyButton
                text={failure.requestId}
                what="Request id"
                className="icon-button icon-button-small"
              />
            </span>
          )}
        </p>
      </div>
      {action}
    </div>
  );
}
