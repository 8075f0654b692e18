import type { Key } from "../api/messages.ts";
import { bounds } from "../bounds.ts";
import { Icon } from "../controls/icon.tsx";
import { useServices } from "../services.tsx";
import { timeUntil } from "../time/relative-time.ts";
import { useTicking } from "../time/ticker.ts";
import { Ago } from "./ago.tsx";

/** When an active key ends: "Expires in 9 days". Its last 14 days are marked. */
export function Until({ apiKey: { expireTime, replacedByKeyId } }: { apiKey: Key }) {
  const { ticker } = useServices();
  const ms = expireTime === undefined ? Number.POSITIVE_INFINITY : Date.parse(expireTime);
  const soon = useTicking(ticker, (nowMs) => (ms - nowMs < bounds.expiresSoonMs ? "soon" : ""));
  return (
    expireTime && (
      <span className={`until ${soon}`}>
        {soon && <Icon name="warning" />}
        {replacedByKeyId ? "Ends" : "Expires"} <Ago time={expireTime} inWords={timeUntil} />
      </span>
    )
  );
}
