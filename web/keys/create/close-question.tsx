import { useLayoutEffect, useRef } from "react";

/** Asks once before a key is lost that nobody copied. */
export function CloseQuestion({ onKeep, onClose }: { onKeep(): void; onClose(): void }) {
  const keepButton = useRef<HTMLButtonElement>(null);
  // Before it is painted: whoever sees it may press a key at once.
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
