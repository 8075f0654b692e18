/**
 * The HTTP side of the public listener, in the order in which a path is looked for: health, REST,
 * sign-in, the screen.
 */

import { create, type DescMessage, isMessage, type Message, type MessageShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunState } from "#gen/keyrun/v1/run_pb.ts";
import {
  GetRunResponseSchema,
  type RunAppRequest,
  RunAppResponseSchema,
  RunService,
} from "#gen/keyrun/v1/run_service_pb.ts";
import { createTranscoder } from "#transcode/transcoder.ts";
import type { AppRecord } from "../apps/app-store.ts";
import type { AuditLog } from "../audit/audit-log.ts";
import { credentialOf, requestBytesMaxOf } from "../auth/policy.ts";
import type { Call } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { HttpHandler, HttpRequest } from "../http/handler.ts";
import { createScreenHandler, type ScreenFiles } from "../http/screen.ts";
import { compress, createStaticBody } from "../http/static-body.ts";
import { fail } from "../refusal/refusal.ts";
import { openApiFacts, writeOpenApi } from "../rest/openapi.ts";
import { createOperationsHandler } from "../rest/operations-handler.ts";
import { readPreferences } from "../rest/preferences.ts";
import { createRestHandler } from "../rest/rest-handler.ts";
import { Accepted, type RestMethod, type RestWork } from "../rest/rest-method.ts";
import type { Readiness } from "../rpc/health.ts";
import { refusalOf } from "../run/background/background-service.ts";
import { runBounds } from "../run/run-bounds.ts";
import type { FindRunnableApp } from "../run/runner.ts";
import type { Config } from "../settings/config.ts";
import { isLoopbackHost } from "../settings/host.ts";
import { createSignInHandler } from "../sign-in/sign-in-handler.ts";
import type { MakePublicHandler } from "./listeners.ts";
import type { Services } from "./services.ts";
import type { SignIn } from "./sign-in.ts";
import type { ScreenNotice } from "./start-words.ts";

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
  const { runApp, streamApp, getRun, listRuns, cancelRun } = RunService.method;
  const answer: AnswerFor<typeof runApp.input> = (app, request, call) => {
    const prefer = call.header("prefer");
    const isAsync = prefer !== undefined && readPreferences(prefer).respondAsync;
    return isAsync && runService.offersBackground()
      ? answerAsync(runService, { app, request, waitSeconds: readPreferences(prefer).waitSeconds }, call)
      : runFound(app, request, call);
  };
  return [
    ofApp(findRunnableApp, { method: runApp, answer }),
    ofApp(findRunnableApp, { method: streamApp, answer: streamFound }),
    plain(getRun, async (request, call) => {
      const prefer = call.header("prefer");
      const seconds = prefer === undefined ? undefined : readPreferences(prefer).waitSeconds;
      if (request.wait === undefined && seconds !== undefined) request.wait = durationFromMs(1_000 * seconds);
      const answer = await runService.getRun(request, call);
      call.responseHeaders.set("cache-control", "no-store");
      return create(getRun.output, answer);
    }),
    plain(listRuns, async (request, call) => {
      const answer = await runService.listRuns(request, call);
      call.responseHeaders.set("cache-control", "no-store");
      return create(listRuns.output, answer);
    }),
    plain(cancelRun, async (request, call) =>
      create(cancelRun.output, await runService.cancelRun(request, call)),
    ),
  ];
}

/** Answers a run with `Prefer: respond-async` (RFC 7240): before its end, or as one waited for. */
async function answerAsync(
  { startFound }: Services["runService"],
  { app, request, waitSeconds }: { app: AppRecord; request: RunAppRequest; waitSeconds: number | undefined },
  call: Call,
): Promise<Message | Accepted> {
  const seconds = waitSeconds && Math.min(waitSeconds, runBounds.runWaitMsMax / 1_000);
  const wait = seconds === undefined ? "" : `, wait=${seconds}`;
  call.responseHeaders.set("preference-applied", `respond-async${wait}`);
  call.responseHeaders.set("vary", "Prefer");
  call.responseHeaders.set("cache-control", "no-store");
  const asked = { waitMs: 1_000 * (seconds ?? 0), ...(request.text !== undefined && { text: request.text }) };
  request.text = "";
  const run = await startFound(app, asked, call);
  if (run.state === RunState.RUNNING) {
    call.responseHeaders.set("location", `/api/runs/${run.runId}`);
    call.responseHeaders.set("retry-after", String(bounds.retryAfterAcceptedS));
    return new Accepted(RunService.method.getRun, create(GetRunResponseSchema, { run }));
  }
  if (run.error) throw refusalOf(run.error);
  const { runId, appId, text } = run;
  if (text === undefined) throw fail("IDEMPOTENCY_ANSWER_GONE");
  return create(RunAppResponseSchema, { runId, appId, text });
}

/** A method whose path names nothing that could be refused before the body is read. */
function plain<Input extends DescMessage>(
  method: RestMethod["method"] & { readonly input: Input },
  answer: (request: MessageShape<Input>, call: Call) => Promise<Message>,
): RestMethod {
  const { input } = method;
  return {
    method,
    prepare: () => (request, call) => {
      if (!isMessage(request, input)) throw new Error(`no ${input.typeName}: ${request.$typeName}`);
      return answer(request, call);
    },
  };
}

function leakReports({ revokeLeakedKey }: Services): RestMethod {
  const method = KeyService.method.revokeLeakedKey;
  return plain(method, async (request, call) => create(method.output, await revokeLeakedKey(request, call)));
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
    async prepare(principal, captures) {
      if (principal.kind !== "api_key") throw new Error(`${method.toString()} needs the team of a key`);
      return work(await findRunnableApp(principal, captures.get("app_id") ?? ""));
    },
  };
}

type AnswerFor<Input extends DescMessage> = (
  app: AppRecord,
  request: MessageShape<Input>,
  call: Call,
) => ReturnType<RestWork>;

/**
 * Puts the screen and sign-in before a handler. Where nobody can sign in, there is no screen
 * either, but its documentation.
 */
type WithScreen = (next: HttpHandler) => HttpHandler;

export function createWithScreen(
  signIn: SignIn & {
    readonly audit: AuditLog;
    readonly clock: Clock;
    readonly publicUrl: string | undefined;
  },
  files: ScreenFiles | undefined,
): WithScreen {
  const { access, method, address, sessions, accessOf, audit, clock, publicUrl } = signIn;
  return (next) => {
    if (!access || !method) {
      const addressOf = publicUrl === undefined ? addressAsked : address;
      return files ? createScreenHandler({ files, address: addressOf, clock, next }) : next;
    }
    const documents = files
      ? createScreenHandler({
          files,
          address,
          clock,
          next,
          isOwnHost: (request) => access.isOwnHost((name) => request.header(name)),
        })
      : next;
    return createSignInHandler({ address, sessions, method, audit, accessOf, next: documents });
  };
}

/**
 * The address that the caller has asked, for a Keyrun that does not know its own. Off the loopback
 * it is taken for one of HTTPS, which security.txt needs (RFC 9116, section 2.5.3), but browsers
 * are not told to use HTTPS alone.
 */
function addressAsked(request: HttpRequest): { readonly origin: string; readonly secure: boolean } {
  const host = request.header(":authority") ?? request.header("host") ?? "localhost";
  const url = new URL(`https://${host}`);
  return { origin: isLoopbackHost(url.hostname) ? `http://${host}` : url.origin, secure: false };
}

/** What is said of the screen at start. Makes no link yet. */
export function screenNotice(signIn: SignIn, files: ScreenFiles | undefined): ScreenNotice {
  if (signIn.mode === "off") return { kind: "off" };
  if (!files) return { kind: "not_built" };
  const { address, links } = signIn;
  return { kind: "open", url: address().origin, newLink: links && (() => links.create().url) };
}
