import { useEffect } from "react";
import { bounds } from "../bounds.ts";
import { type Cell, createCell, useCell } from "../cell.ts";

/**
 * Messages about what happened on the page, for screen readers. Some are also shown for a while.
 */
export interface Status {
  readonly message: Cell<Message | null>;
  /** Announces a sentence, also when it is the same as the last one. */
  say(text: string, how?: { shown: boolean }): void;
}

interface Message {
  readonly text: string;
  readonly shown: boolean;
}

export function createStatus(): Status {
  const message = createCell<Message | null>(null);
  return { message, say: (text, how = { shown: false }) => message.set({ text, shown: how.shown }) };
}

/**
 * The page's one live region. It is always rendered: a screen reader may miss the words of a region
 * that appears together with them.
 */
export function StatusRegion({ status }: { status: Status }) {
  const message = useCell(status.message);
  useEffect(() => {
    if (message === null) return;
    const timer = setTimeout(() => status.message.set(null), bounds.statusMs);
    return () => clearTimeout(timer);
  }, [message, status]);
  return (
    <div role="status" className={message?.shown ? "toast" : "visually-hidden"}>
      <span className="status-text">{message?.text}</span>
    </div>
  );
}
