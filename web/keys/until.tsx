import { bounds } from "../bounds.ts";
import { Icon } from "../controls/icon.tsx";
import { useServices } from "../services.tsx";
import { timeUntil } from "../time/relative-time.ts";
import { useTicking } from "../time/ticker.ts";
import { Ago } from "./ago.tsx";

/** When an active key ends: "in 9 days". Its last 14 days are marked. */
export function Until({ time }: { time: string }) {
  const { ticker } = useServices();
  const ms = Date.parse(time);
  const soon = useTicking(ticker, (nowMs) => (ms - nowMs < bounds.expiresSoonMs ? "soon" : ""));
  return (
    <span className={`until ${soon}`}>
      {soon && <Icon name="warning" />}
      <Ago time={time} inWords={timeUntil} />
    </span>
  );
}
