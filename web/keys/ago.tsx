import { useServices } from "../services.tsx";
import { exactTime } from "../time/local-format.ts";
import { relativeTime } from "../time/relative-time.ts";
import { useTicking } from "../time/ticker.ts";

interface AgoProps {
  readonly time: string;
  /** The words for the time; by default those for one that has passed. */
  inWords?(thenMs: number, nowMs: number): string;
}

/**
 * "3 days ago", updated as time passes. Under a mouse its title is the exact time; the dialog of
 * the key's details shows that to everybody.
 */
export function Ago({ time, inWords = relativeTime }: AgoProps) {
  const { ticker } = useServices();
  const ms = Date.parse(time);
  const words = useTicking(ticker, (nowMs) => inWords(ms, nowMs));
  return (
    <time
      dateTime={new Date(ms).toISOString()}
      // Not before, because the format takes a phone some milliseconds.
      onPointerEnter={({ currentTarget }) => {
        currentTarget.title = exactTime(ms);
      }}
    >
      {words}
    </time>
  );
}
