import { useLayoutEffect, useRef } from "react";

interface CloseQuestionProps {
  onCopy(): void;
  onKeep(): void;
  onClose(): void;
}

/** Asks before the dialog of a key that was not copied closes. */
export function CloseQuestion({ onCopy, onKeep, onClose }: CloseQuestionProps) {
  const copyButton = useRef<HTMLButtonElement>(null);
  // Before the paint, because a person who sees the question may press a key at once.
  useLayoutEffect(() => copyButton.current?.focus(), []);
  return (
    <div className="close-question" role="alert">
      <p>Close without copying? You won’t see this key again.</p>
      <div className="dialog-buttons">
        <button ref={copyButton} type="button" className="button button-primary" onClick={onCopy}>
          Copy and close
        </button>
        <button type="button" className="button" onClick={onKeep}>
          Keep open
        </button>
        <button type="button" className="button" onClick={onClose}>
          Close anyway
        </button>
      </div>
    </div>
  );
}
