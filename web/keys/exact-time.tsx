import { exactTime, exactTimeLanguage } from "../time/local-format.ts";

/** The local date and time, as the person's language writes it. */
export function ExactTime({ time }: { time: string }) {
  const ms = Date.parse(time);
  return (
    <time dateTime={new Date(ms).toISOString()} lang={exactTimeLanguage()} dir="auto">
      {exactTime(ms)}
    </time>
  );
}
