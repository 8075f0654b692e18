// The methods that REST serves, and what it adds to them: the path is checked before the body, and
// `Prefer` says whether a caller waits for its run (RFC 7240).

import { create, type DescMessage, isMessage, type Message, type MessageShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunState } from "#gen/keyrun/v1/run_pb.ts";
import {
  GetRunResponseSchema,
  type RunAppRequest,
  RunAppResponseSchema,
  RunService,
  StartRunRequestSchema,
} from "#gen/keyrun/v1/run_service_pb.ts";
import type { Call, ServiceMethods } from "../auth/principal.ts";
import { bounds } from "../bounds.ts";
import { fail } from "../refusal/refusal.ts";
import { refusalOfFault } from "../run/kept/run-ends.ts";
import { runBounds } from "../run/run-bounds.ts";
import type { RunMethods } from "../run/run-service.ts";
import type { FindRunnableApp } from "../run/runner.ts";
import { Accepted, type RestAnswer, type RestMethod } from "./rest-method.ts";

/** Each method calls what serves it over RPC. */
export function createRestMethods(parts: {
  readonly runs: RunMethods;
  readonly findRunnableApp: FindRunnableApp;
  readonly revokeLeakedKey: ServiceMethods<typeof KeyService>["revokeLeakedKey"];
}): readonly RestMethod[] {
  const { runs, findRunnableApp, revokeLeakedKey } = parts;
  const { runApp, streamApp, getRun, listRuns, cancelRun } = RunService.method;
  const checkApp: RestMethod["checkPath"] = async (principal, captures) => {
    if (principal.kind !== "api_key") throw new Error("a run needs the team of a key");
    await findRunnableApp(principal, captures.get("app_id") ?? "");
  };
  return [
    restMethod(
      runApp,
      (request, call) => {
        const preferences = readPreferences(call.http.header("prefer"));
        return preferences.respondAsync && runs.offersBackground
          ? answerAsync(runs, request, preferences, call)
          : runs.runApp(request, call);
      },
      checkApp,
    ),
    restMethod(streamApp, runs.streamApp, checkApp),
    restMethod(getRun, async (request, call) => {
      const { waitSeconds } = readPreferences(call.http.header("prefer"));
      if (waitSeconds !== undefined) request.wait ??= durationFromMs(1_000 * waitSeconds);
      const answer = await runs.getRun(request, call);
      call.responseHeaders.set("cache-control", "no-store");
      return create(getRun.output, answer);
    }),
    restMethod(listRuns, async (request, call) => {
      const answer = await runs.listRuns(request, call);
      call.responseHeaders.set("cache-control", "no-store");
      return create(listRuns.output, answer);
    }),
    restMethod(cancelRun, async (request, call) =>
      create(cancelRun.output, await runs.cancelRun(request, call)),
    ),
    restMethod(KeyService.method.revokeLeakedKey, async (request, call) =>
      create(KeyService.method.revokeLeakedKey.output, await revokeLeakedKey(request, call)),
    ),
  ];
}

/** Answers a run with `Prefer: respond-async`: before its end, or as one waited for. */
async function answerAsync(
  runs: RunMethods,
  { appId, text, input }: RunAppRequest,
  { waitSeconds }: Preferences,
  call: Call,
): Promise<Message | Accepted> {
  const seconds = waitSeconds && Math.min(waitSeconds, runBounds.runWaitMsMax / 1_000);
  const wait = seconds === undefined ? "" : `, wait=${seconds}`;
  call.responseHeaders.set("preference-applied", `respond-async${wait}`);
  call.responseHeaders.set("vary", "Prefer");
  call.responseHeaders.set("cache-control", "no-store");
  const request = create(StartRunRequestSchema, {
    appId,
    wait: durationFromMs(1_000 * (seconds ?? 0)),
    ...(text !== undefined && { text }),
    ...(input !== undefined && { input }),
  });
  const { run } = await runs.startRun(request, call);
  if (run.state === RunState.RUNNING) {
    call.responseHeaders.set("location", `/api/runs/${run.runId}`);
    call.responseHeaders.set("retry-after", String(bounds.retryAfterAcceptedS));
    return new Accepted(RunService.method.getRun, create(GetRunResponseSchema, { run }));
  }
  if (run.error) throw refusalOfFault(run.error);
  if (run.textDropped) throw fail("IDEMPOTENCY_ANSWER_GONE");
  const { runId, text: outputText, output } = run;
  return create(RunAppResponseSchema, { runId, appId: run.appId, text: outputText, output });
}

function restMethod<Input extends DescMessage>(
  method: RestMethod["method"] & { readonly input: Input },
  answer: (request: MessageShape<Input>, call: Call) => RestAnswer,
  checkPath?: RestMethod["checkPath"],
): RestMethod {
  const { input } = method;
  return {
    method,
    checkPath,
    answer(request, call) {
      if (!isMessage(request, input)) throw new Error(`no ${input.typeName}: ${request.$typeName}`);
      return answer(request, call);
    },
  };
}

/** The preferences that Keyrun knows. */
interface Preferences {
  readonly respondAsync: boolean;
  /** Undefined if the caller names none. */
  readonly waitSeconds: number | undefined;
}

/**
 * Reads the value of `Prefer`, with all of its headers joined. Names count in any case, and the
 * first of a name counts. What is unknown or can't be read is ignored, with its parameters.
 */
export function readPreferences(value: string | undefined): Preferences {
  if (value === undefined) return noPreferences;
  const found = new Map<string, string>();
  for (const [member] of value.matchAll(members)) {
    const [, name, token, quoted] = preference.exec(member) ?? [];
    if (name === undefined) continue;
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, token ?? quoted?.replace(/\\(.)/g, "$1") ?? "");
  }
  const wait = found.get("wait");
  return {
    // It takes no value; an empty one is none.
    respondAsync: found.get("respond-async") === "",
    waitSeconds: wait !== undefined && wholeSeconds.test(wait) ? Number(wait) : undefined,
  };
}

const noPreferences: Preferences = { respondAsync: false, waitSeconds: undefined };
/** The members of a list: between commas that are not in a quoted string. */
const members = /(?:"(?:[^"\\]|\\.)*"|[^,"])+/g;
/** A name, perhaps with a value, before its parameters. */
const preference =
  /^[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*(?:=[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)|"((?:[^"\\]|\\.)*)")?)?[ \t]*(?:;.*)?$/s;
const wholeSeconds = /^[0-9]{1,9}$/;
