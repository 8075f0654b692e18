import { useEffect } from "react";
import { bounds } from "../bounds.ts";
import { type Cell, createCell, useCell } from "../cell.ts";

/** What the page tells about itself, politely, to those who hear it; some of it is also shown for a while. */
export interface Status {
  readonly message: Cell<Message | null>;
  /** Says a sentence. The same sentence again is said again. */
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

/** The page's one live region. It is always there, since a region that comes with its words may go unheard. */
export function StatusRegion({ status }: { status: Status }) {
  const message = useCell(status.message);
  useEffect(() => {
    if (message === null) return;
    const timer = setTimeout(() => status.message.set(null), bounds.statusMs);
    return () => clearTimeout(timer);
  }, [message, status]);
  return (
    <div role="status" className={message?.shown ? "toast" : "visually-hidden"}>
      {message?.text}
    </div>
  );
}
