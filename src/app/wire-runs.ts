/** A part of step 2 of a start: the runs of apps. */

import { createCheckKey } from "../admission/admission.ts";
import type { CheckKey } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import { createRunIds, type RandomBytes } from "../base/ids.ts";
import { bounds } from "../bounds.ts";
import type { ByteBudget } from "../limit/byte-budget.ts";
import type { Log } from "../log/log.ts";
import { createRedaction, type Redact } from "../log/redaction.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { refusalFrom } from "../refusal/refusal.ts";
import { createAppRunner } from "../run/app-runner.ts";
import { createCheckApp } from "../run/check-app.ts";
import { createKeptRunService } from "../run/kept/kept-run-service.ts";
import { createKeptRuns } from "../run/kept/kept-runs.ts";
import type { NameFilePaths } from "../run/resolve-host.ts";
import { createRunService } from "../run/run-service.ts";
import { createRunSlots } from "../run/run-slots.ts";
import { createFindApp, createFindRunnableApp, type FindRunnableApp, type Runner } from "../run/runner.ts";
import { createWatchRights, type WatchRights } from "../run/watch-rights.ts";
import type { Config } from "../settings/config.ts";
import type { Stores } from "../store/stores.ts";
import type { Traces } from "../traces/traces.ts";
import type { Usage } from "../usage/usage.ts";
import type { Caches } from "./caches.ts";
import type { Membership } from "./membership.ts";
import { createStreamMeters, meterRuns } from "./meters.ts";

export interface RunsParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly bytes: ByteBudget;
  readonly stores: Stores;
  readonly caches: Caches;
  readonly membership: Membership;
  /** Undefined: requests are not traced. */
  readonly traces: Traces | undefined;
  /** Where the system says how the hosts of apps become addresses, if not in its usual files. */
  readonly nameFiles?: NameFilePaths | undefined;
  /** Cuts secrets from the words of apps; undefined: it knows the form of keys alone. */
  readonly redact?: Redact | undefined;
}

export type Runs = ReturnType<typeof wireRuns>;

/** Runs and streams of apps, and the answers that are kept for repeats. */
export function wireRuns(parts: WireRunsParts, usage: Usage) {
  const { clock, stores, caches } = parts;
  const redact = parts.redact ?? createRedaction(parts.config.keyPrefix, []);
  const { runner, run, streams } = wireRunners(parts, usage, redact);
  const findApp = createFindApp(caches.apps);
  const shared = {
    newRunId: createRunIds(parts.randomBytes),
    findRunnableApp: createFindRunnableApp(findApp),
    watchRights: createWatchRights({
      recheckMs: bounds.streamRecheckMs,
      mayAdmit: parts.membership.mayAdmit,
    }),
    checkKey: createCheckKey(caches.keys, clock),
  };
  const { newRunId, findRunnableApp } = shared;
  const { keptRuns, kept } = wireKeptRuns(parts, { ...shared, run });
  const runService = createRunService({
    ...shared,
    run,
    stream: streams.stream,
    slots: streams.slots,
    kept,
    startMsMax: bounds.streamQuietMs,
  });
  const checkApp = createCheckApp({ apps: stores.apps, runner, newRunId, redact });
  return {
    runService,
    runner,
    keptRuns,
    findApp,
    findRunnableApp,
    checkApp,
    openStreams: streams.open,
  };
}

type WireRunsParts = RunsParts & { readonly randomBytes: RandomBytes };

/** What calls the apps, with its meters and spans. */
function wireRunners(parts: WireRunsParts, usage: Usage, redact: Redact) {
  const { config, clock, metrics, traces } = parts;
  const runner = createAppRunner({
    clock,
    appRunsMax: config.appRunsMax,
    backgroundRunsMax: config.appBackgroundRunsMax,
    outputBytesMax: config.appOutputBytesMax,
    nameFiles: parts.nameFiles,
    redact,
  });
  const ended = { clock, countRun: usage.runEnded };
  const slots = createRunSlots({ clock, appRunsMax: config.appStreamsMax, runsMax: bounds.streamsMax });
  const stream = traces?.stream(runner) ?? runner.stream;
  return {
    runner,
    run: meterRuns(traces?.run(runner) ?? runner.run, metrics, ended),
    streams: createStreamMeters({ slots, stream, metrics, ...ended }),
  };
}

interface KeptRunsParts {
  readonly run: Runner;
  readonly newRunId: () => string;
  readonly findRunnableApp: FindRunnableApp;
  readonly watchRights: WatchRights;
  readonly checkKey: CheckKey;
}

/** The runs with a record in the store: with an Idempotency-Key, and in the background. */
function wireKeptRuns(
  parts: WireRunsParts,
  { run, newRunId, findRunnableApp, watchRights, checkKey }: KeptRunsParts,
) {
  const { config, clock, log, metrics, stores, caches, bytes } = parts;
  const recordsMaxOf = async (teamId: string) => {
    const team = await caches.teams.load(teamId);
    const perMinute = team ? parts.membership.limitOf(team.plan) : 0;
    return Math.max(bounds.runRecordsMin, bounds.runRecordMinutes * perMinute);
  };
  const keptRuns = createKeptRuns({
    clock,
    store: stores.runs,
    run: tellingOf(run, log),
    bytes,
    recordsMaxOf,
    onWriteFailed: (err) => log.warn({ err }, "records of runs could not be written; they are tried again"),
    watchRights,
    slots: createRunSlots({
      clock,
      appRunsMax: config.appBackgroundRunsMax,
      runsMax: bounds.backgroundRunsMax,
    }),
    keptMs: config.idempotencyHours * 3_600_000,
    onEnded: metrics.backgroundRunEnded,
    ...ownersOf(parts),
  });
  const kept = createKeptRunService({
    runs: keptRuns,
    apps: caches.apps,
    checkKey,
    findRunnableApp,
    newRunId,
    isOffered: config.idempotencyHours > 0,
  });
  parts.membership.listen({
    // A change without an id is about any run.
    apply(changes) {
      for (const { kind, id } of changes) if (kind === "run") keptRuns.endedElsewhere(id || undefined);
    },
    missed: () => keptRuns.endedElsewhere(),
  });
  return { keptRuns, kept };
}

/** In whose name this process takes on runs with a record, and who else may. */
function ownersOf({ membership: { fleet, mayAdmit }, randomBytes }: WireRunsParts) {
  if (!fleet) {
    const owner = Buffer.from(randomBytes(8)).toString("hex");
    return { owner: () => (mayAdmit() ? owner : undefined), announceEnd: () => {} };
  }
  return {
    owner: () => (mayAdmit() ? fleet.members().ownId : undefined),
    liveOwners: () => (mayAdmit() ? new Set(fleet.members().leases.map(({ id }) => id)) : undefined),
    announceEnd(id = "") {
      void fleet.announce([{ kind: "run", id, version: 0 }], { wait: false });
    },
  };
}

/** Tells in the log of each failed run in the background, whose request was answered before. */
function tellingOf(run: Runner, log: Log): Runner {
  return async (asked) => {
    try {
      return await run(asked);
    } catch (thrown) {
      const { reason, cause } = refusalFrom(thrown);
      const { requestId, runId, teamId, app, isBackground } = asked;
      if (isBackground && reason !== "RUN_CANCELLED") {
        log.warn(
          { reason, requestId, runId, teamId, appId: app.id, cause },
          "a run in the background failed",
        );
      }
      throw thrown;
    }
  };
}
