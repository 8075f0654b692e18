import { type AccessLog, createAccessLog } from "../http/access-log.ts";
import type { Mount } from "../http/handler.ts";
import { noteOutcomes } from "../http/noted-outcomes.ts";
import type { Outcomes } from "../http/outcomes.ts";
import { type RequestWatch, watchRequests } from "../http/request-notes.ts";
import type { NameRoute } from "../http/route-names.ts";
import type { Traces } from "../traces/traces.ts";
import type { AppParts } from "./open.ts";

/** What the listeners do for the access log and for traces: nothing where both are off. */
export interface Watching {
  /** Undefined: requests have no notes. */
  readonly watch: RequestWatch | undefined;
  outcomes(outcomes: Outcomes): Outcomes;
  mount(mount: Mount): Mount;
}

export interface WatchingParts extends Pick<AppParts, "clock" | "log" | "writeAccess" | "redact"> {
  readonly nameRoute: NameRoute;
  readonly traces: Traces | undefined;
}

/** Access lines are written where `writeAccess` is given. */
export function createWatching(parts: WatchingParts): Watching {
  const { clock, log, writeAccess: write, nameRoute, redact = asItIs, traces } = parts;
  const accessLog: AccessLog | undefined = write && createAccessLog({ clock, nameRoute, write, redact });
  const spans = traces?.serverSpans({ nameRoute, redact });
  const watch = watchRequests(
    [accessLog, spans].filter((each) => each !== undefined),
    {
      monotonicMs: () => clock.monotonicMs(),
      onFault: (err) => log.error({ err }, "a request could not be traced or noted in the access log"),
    },
  );
  if (watch === undefined) return { watch, outcomes: asItIs, mount: asItIs };
  return {
    watch,
    outcomes: (outcomes) =>
      noteOutcomes(spans?.outcomes(outcomes) ?? outcomes, (...refused) => accessLog?.unread(...refused)),
    mount: (mount) => spans?.mount(mount) ?? mount,
  };
}

function asItIs<Value>(value: Value): Value {
  return value;
}
