/** What watches requests without being asked by them: the access log and traces. */

import type { DescService } from "@bufbuild/protobuf";
import { bindingsOf } from "#transcode/binding.ts";
import type { Admit } from "../admission/admission.ts";
import { type AccessLog, createAccessLog } from "../http/access-log.ts";
import type { Mount } from "../http/handler.ts";
import { noteOutcomes, type Outcomes } from "../http/outcomes.ts";
import { createRouteNames, type NameRoute, type RequestWatch, watchRequests } from "../http/request-notes.ts";
import { pathOfMethod } from "../rpc/served.ts";
import type { Traces } from "../traces/traces.ts";
import type { AppParts } from "./open.ts";

/** What the listeners do for the access log and for traces: nothing where both are off. */
export interface RequestObservers {
  /** Undefined: requests have no notes. */
  readonly watch: RequestWatch | undefined;
  outcomes(outcomes: Outcomes): Outcomes;
  readonly mount: ((mount: Mount) => Mount) | undefined;
}

export interface RequestObserversParts extends Pick<AppParts, "clock" | "log" | "writeAccess" | "redact"> {
  readonly nameRoute: NameRoute;
  readonly traces: Traces | undefined;
}

/** Access lines are written where `writeAccess` is given. */
export function createRequestObservers(parts: RequestObserversParts): RequestObservers {
  const { clock, log, writeAccess: write, nameRoute, redact = (text: string) => text, traces } = parts;
  const accessLog: AccessLog | undefined = write && createAccessLog({ clock, nameRoute, write, redact });
  const spans = traces?.serverSpans({ nameRoute, redact });
  const watch = watchRequests(
    [accessLog, spans].filter((each) => each !== undefined),
    {
      monotonicMs: () => clock.monotonicMs(),
      onFault: (err) => log.error({ err }, "a request could not be traced or noted in the access log"),
    },
  );
  if (watch === undefined) return { watch, outcomes: (outcomes) => outcomes, mount: undefined };
  return {
    watch,
    outcomes: (outcomes) =>
      noteOutcomes(spans?.outcomes(outcomes) ?? outcomes, (...refused) => accessLog?.unread(...refused)),
    mount: spans?.mount,
  };
}

/** The paths of both listeners beside those of RPCs, REST methods and the screen's files. */
const ownPaths = [
  ...["/healthz", "/readyz", "/openapi.json", "/metrics"],
  ...["/", "/settings", "/settings/**", "/sign-in", "/sign-in/link", "/sign-in/code", "/sign-in/callback"],
  ...["/api/apps/{app_id}/guard", "/api/apps/{app_id}/guard/**"],
  ...["/docs/api", "/docs/errors", "/docs/security", "/.well-known/security.txt"],
];

/** Names the routes of all services and of the screen's files. */
export function nameRoutes(services: readonly DescService[], screenPaths: Iterable<string>): NameRoute {
  const rpcs = services.flatMap(({ methods }) => methods.map(pathOfMethod));
  const rest = services.flatMap(bindingsOf).map(({ template }) => template.source.replaceAll("=*}", "}"));
  return createRouteNames([...ownPaths, ...rpcs, ...rest, ...screenPaths]);
}

/** The same admission, with the proven key and its team in the notes of the request. */
export function noteCallers(admit: Admit): Admit {
  return async (caller, allowance) => {
    const admission = await admit(caller, allowance);
    const { notes } = caller;
    const { principal } = admission;
    if (notes === undefined || principal === undefined) return admission;
    notes.keyId = principal.keyId;
    notes.teamId = principal.teamId;
    return admission;
  };
}
