import { useLayoutEffect, useRef } from "react";

/** Asks before the dialog of a key that was not copied closes. */
export function CloseQuestion({ onKeep, onClose }: { onKeep(): void; onClose(): void }) {
  const keepButton = useRef<HTMLButtonElement>(null);
  // Before the paint, because a person who sees the question may press a key at once.
  useLayoutEffect(() => keepButton.current?.focus(), []);
  return (
    <div className="close-question" role="alert">
      <p>Close without copying? You won’t see this secret key again.</p>
      <div className="dialog-buttons">
        <button type="button" className="button" onClick={onClose}>
          Close anyway
        </button>
        <button ref={keepButton} type="button" className="button button-primary" onClick={onKeep}>
          Keep open
        </button>
      </div>
    </div>
  );
}
