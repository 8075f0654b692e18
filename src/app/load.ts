import type { Load } from "../admission/admission.ts";
import type { Clock } from "../base/clock.ts";
import { LoadShedder } from "../limit/load-shedder.ts";
import { loopDelayLimits } from "../limit/loop-delay.ts";
import type { Log } from "../log/log.ts";

export interface WatchedLoad extends Load {
  /** The p99 of the event loop's delay. */
  p99Ms(): number;
  /** Watches the event loop until the returned function is called. */
  begin(): () => Promise<void>;
}

/** Makes what sheds load where this process's event loop is late, and says so in the log. */
export function watchLoad({ clock, log }: { readonly clock: Clock; readonly log: Log }): WatchedLoad {
  const shedder = new LoadShedder(clock, ({ isShedding, refused }) => {
    if (isShedding)
      log.warn({ p99Ms: Math.round(shedder.p99Ms()) }, "the event loop is late: runs are refused");
    else log.warn({ refused }, "the event loop is on time again: no more runs are refused for it");
  });
  return {
    sheds: (address) => shedder.sheds(address),
    p99Ms: () => shedder.p99Ms(),
    begin() {
      shedder.begin();
      // Node runs timers before it reads sockets, so what came during a stall meets this look.
      let next: NodeJS.Timeout;
      const lookAfter = (ms: number) => {
        next = setTimeout(() => lookAfter(shedder.look()), ms).unref();
      };
      lookAfter(loopDelayLimits.lookMs);
      return async () => clearTimeout(next);
    },
  };
}
