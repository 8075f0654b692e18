import type { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { missingApp } from "../apps/app-service.ts";
import type { AppRecord, AppStore } from "../apps/app-store.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import { readResourceId } from "../base/fields.ts";
import type { Redact } from "../log/redaction.ts";
import { Refusal } from "../refusal/refusal.ts";
import type { AppRunner } from "./app-runner.ts";
import { createCleanWords } from "./app-words.ts";
import { adviceFor } from "./check-advice.ts";
import { type Run, type RunOutput, readInput } from "./runner.ts";
import { SeenAnswer } from "./seen-answer.ts";

/**
 * `CheckApp`: sends an app a run over the runner of every other run, with the headers of the app,
 * and says what came of it, what was missing, and how to mend it. No key, team or limit has a part
 * in it, and it is in no usage. The app sees an empty `teamId` and `keyId`.
 */
export function createCheckApp(parts: {
  readonly apps: Pick<AppStore, "find">;
  readonly runner: Pick<AppRunner, "run" | "reach">;
  readonly newRunId: () => string;
  readonly redact: Redact;
}): ServiceMethods<typeof AppService>["checkApp"] {
  const { runner } = parts;
  return async (request, call) => {
    const appId = readResourceId(request.appId, "app_id");
    const app = (await parts.apps.find(appId)) ?? missingApp(appId);
    const text = request.text ?? (request.input ? undefined : "");
    const input = request.connectOnly ? {} : readInput(app, { ...request, text }, call);
    const seen = new SeenAnswer();
    const run: Run = {
      runId: parts.newRunId(),
      teamId: "",
      keyId: "",
      app,
      ...input,
      reservation: call.http.reservation,
      requestId: call.http.requestId,
      answered: (status) => seen.answered(status),
      watch: seen,
      callerMsLeft: () => call.timeoutMs(),
      signal: call.signal,
    };
    const clean = cleanWordsOf(app, parts.redact);
    try {
      if (request.connectOnly) {
        await runner.reach(app.backend);
        return { succeeded: true };
      }
      const output = await runner.run(run);
      return { ...seen.facts(app, clean), succeeded: true, output: clean(shownOutput(output)) };
    } catch (thrown) {
      if (!(thrown instanceof Refusal) || !isOfApp(thrown)) throw thrown;
      const problem =
        thrown.reason === "APP_REFUSED" ? thrown.message : String(thrown.cause ?? thrown.message);
      return {
        ...seen.facts(app, clean),
        succeeded: false,
        reason: thrown.reason,
        problem: clean(problem),
        advice: clean(adviceFor({ app, reason: thrown.reason, problem, seen, requestId: run.requestId })),
      };
    }
  };
}

/** The text that the app gave, or its JSON. */
function shownOutput({ text, output }: RunOutput): string {
  return text ?? JSON.stringify(output);
}

/** Whether the app is why the run was refused, and not this instance, its load or the caller. */
function isOfApp({ reason }: Refusal): boolean {
  return reason.startsWith("APP_");
}

function cleanWordsOf({ backend }: AppRecord, redact: Redact) {
  const clean = createCleanWords(redact, backend.kind === "http" ? backend.headers : []);
  return (words: string) => clean(words) ?? "";
}
