import { create, type DescMessage, isMessage, type MessageShape } from "@bufbuild/protobuf";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { AppRecord } from "../apps/app-store.ts";
import { credentialOf, requestBytesMaxOf } from "../auth/policy.ts";
import type { Call } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import type { HttpHandler } from "../http/handler.ts";
import type { Readiness } from "../http/readiness.ts";
import { compress, createStaticBody } from "../http/static-body.ts";
import type { RestWork } from "../rest/admitted-request.ts";
import { openApiFacts, writeOpenApi } from "../rest/openapi.ts";
import { createOperationsHandler } from "../rest/operations-handler.ts";
import { createRestHandler } from "../rest/rest-handler.ts";
import type { RestMethod } from "../rest/wired-method.ts";
import type { FindRunnableApp } from "../run/run-service.ts";
import type { Config } from "../settings/config.ts";
import { createTranscoder } from "../transcode/transcoder.ts";
import type { MakePublicHandler } from "./listeners.ts";
import type { WithScreen } from "./screen.ts";
import type { Services } from "./services.ts";

/** The public listener's HTTP: operations, the screen, then REST. */
export async function createPublicHandler(parts: {
  readonly config: Config;
  readonly clock: Clock;
  readonly version: string;
  readonly readiness: Readiness;
  readonly services: Services;
  readonly withScreen: WithScreen;
}): Promise<MakePublicHandler> {
  const { config, clock, version, readiness, services, withScreen } = parts;
  const annotated = services.served.map(({ service }) => service);
  const transcoder = createTranscoder(annotated);
  const plain = Buffer.from(writeOpenApi(openApiFacts(config, version)));
  const compressed = await compress(plain);
  const openApi = createStaticBody(plain, { contentType: "application/json", compressed });

  return ({ allowance, outcomes }): HttpHandler => {
    const rest = createRestHandler({
      clock,
      transcoder,
      methods: [...runsOverRest(services), leakReports(services)],
      policy: { credentialOf: (method) => credentialOf(method, "public"), requestBytesMaxOf },
      admit: services.admit,
      allowance,
      outcomes,
      bodyBytesMax: config.bodyBytesMax,
    });
    const others = createOperationsHandler({ readiness, openApi, next: withScreen(rest) });
    // A run skips the handlers of the other paths. A path in another spelling, such as /%61pi/,
    // reaches REST behind them.
    return (request) => (request.target.startsWith("/api/") ? rest(request) : others(request));
  };
}

/**
 * A run over REST calls the same functions as the RPC handlers, without the machinery of streams.
 */
function runsOverRest({ runService, findRunnableApp }: Services): readonly RestMethod[] {
  const { runFound, streamFound } = runService;
  const { runApp, streamApp } = RunService.method;
  return [
    ofApp(findRunnableApp, { method: runApp, answer: runFound }),
    ofApp(findRunnableApp, { method: streamApp, answer: streamFound }),
  ];
}

function leakReports({ revokeLeakedKey }: Services): RestMethod {
  const method = KeyService.method.revokeLeakedKey;
  return {
    method,
    prepare: () => async (request, call) => {
      if (!isMessage(request, method.input)) throw new Error(`no report: ${request.$typeName}`);
      return create(method.output, await revokeLeakedKey(request, call));
    },
  };
}

/** A method of an app, which is found before the body is read. */
function ofApp<Input extends DescMessage>(
  findRunnableApp: FindRunnableApp,
  { method, answer }: { method: RestMethod["method"] & { input: Input }; answer: AnswerFor<Input> },
): RestMethod {
  const { input } = method;
  const work =
    (app: AppRecord): RestWork =>
    (request, call) => {
      if (!isMessage(request, input)) throw new Error(`no ${input.typeName}: ${request.$typeName}`);
      return answer(app, request, call);
    };
  return {
    method,
    prepare(principal, captures) {
      if (principal.kind !== "api_key") throw new Error(`${method.toString()} needs the team of a key`);
      const found = findRunnableApp(principal, captures.get("app_id") ?? "");
      return found instanceof Promise ? found.then(work) : work(found);
    },
  };
}

type AnswerFor<Input extends DescMessage> = (
  app: AppRecord,
  request: MessageShape<Input>,
  call: Call,
) => ReturnType<RestWork>;
