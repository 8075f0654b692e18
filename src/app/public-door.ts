import { isMessage, type Message } from "@bufbuild/protobuf";
import { type RunAppRequest, RunAppRequestSchema, RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { AppRecord } from "../apps/app-store.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { RestMethod, RestWork } from "../edge/admitted-request.ts";
import type { HttpDoor } from "../edge/http.ts";
import { createKeyrunOpenApi } from "../edge/openapi/keyrun-openapi.ts";
import { createOperationsDoor } from "../edge/operations-door.ts";
import { createRestDoor } from "../edge/rest-door.ts";
import { createTranscoder } from "../edge/transcode/transcoder.ts";
import type { Readiness } from "../server/readiness.ts";
import type { PublicDoorMaker } from "./listeners.ts";
import type { WithScreen } from "./screen.ts";
import type { Services } from "./services.ts";

/** The HTTP that the public may ask for: operations, the screen, then REST. */
export function createPublicDoor(parts: {
  readonly config: Config;
  readonly clock: Clock;
  readonly version: string;
  readonly readiness: Readiness;
  readonly services: Services;
  readonly withScreen: WithScreen;
}): PublicDoorMaker {
  const { config, clock, version, readiness, services, withScreen } = parts;
  const annotated = services.served.map(({ service }) => service);
  const transcoder = createTranscoder(annotated);
  const openApi = createKeyrunOpenApi({ services: annotated, config, version });

  return ({ allowance, reporting }): HttpDoor => {
    const rest = createRestDoor({
      clock,
      transcoder,
      methods: [runOverRest(services)],
      admit: services.admit,
      allowance,
      bodyBytesMax: config.bodyBytesMax,
      onRefusal: reporting.rest,
      onAnswered: () => reporting.answered("rest"),
    });
    const others = createOperationsDoor({ readiness, openApi, next: withScreen(rest, reporting) });
    // A run asks none of the doors that answer elsewhere. What is written otherwise, as /%61pi/, finds REST behind them.
    return (request) => (request.target.startsWith("/api/") ? rest(request) : others(request));
  };
}

/** A run over REST takes the direct way: the same function that the RPC door calls, without its stream machinery. */
function runOverRest({ runService, findRunnableApp }: Services): RestMethod {
  const work =
    (app: AppRecord): RestWork =>
    (request, call) =>
      runService.runFound(app, asRunAppRequest(request), call);
  return {
    method: RunService.method.runApp,
    prepare(teamId, captures) {
      const found = findRunnableApp(teamId, captures.get("app_id") ?? "");
      return found instanceof Promise ? found.then(work) : work(found);
    },
  };
}

function asRunAppRequest(message: Message): RunAppRequest {
  if (!isMessage(message, RunAppRequestSchema)) throw new Error(`not a run: ${message.$typeName}`);
  return message;
}
