import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useServices } from "../services.tsx";
import { fullTime, relativeTime } from "./relative-time.ts";
import { useTicking } from "./ticker.ts";

/** "3 days ago", kept true as time goes by; the full local time is its title. */
export function Ago({ time }: { time: Timestamp }) {
  const { ticker } = useServices();
  const ms = timestampMs(time);
  const words = useTicking(ticker, (nowMs) => relativeTime(ms, nowMs));
  return (
    <time dateTime={new Date(ms).toISOString()} title={fullTime(ms)}>
      {words}
    </time>
  );
}
