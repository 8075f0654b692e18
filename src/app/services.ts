import { randomBytes } from "node:crypto";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { createAdmit } from "../admission/admission.ts";
import { createCheckKey } from "../admission/check-key.ts";
import { createDecide } from "../admission/decide.ts";
import { createAppService } from "../apps/app-service.ts";
import { bounds } from "../bounds.ts";
import type { Clock } from "../clock.ts";
import { createRunIds } from "../ids/run-ids.ts";
import { createDeleteKeys } from "../keys/delete-keys.ts";
import { createKeyEvents } from "../keys/key-events.ts";
import { createKeyService } from "../keys/key-service.ts";
import { createKeyForm } from "../keys/key-value.ts";
import { createKeyring } from "../keys/keyring.ts";
import { createLastUses } from "../keys/last-uses.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import { createVerifyKey } from "../keys/verify-key.ts";
import { createWatchKeys, type WatchKeysParts } from "../keys/watch-keys.ts";
import { createLimiter } from "../limit/limiter.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { served } from "../rpc/served.ts";
import { createAppRunner } from "../run/app-runner.ts";
import type { NameFilePaths } from "../run/name-files.ts";
import { createRepeatableRuns } from "../run/repeat/repeatable-runs.ts";
import { createFindRunnableApp, createRunService } from "../run/run-service.ts";
import { createRunSlots } from "../run/run-slots.ts";
import { createWatchRights } from "../run/watch-rights.ts";
import type { Config } from "../settings/config.ts";
import type { Stores } from "../store/stores.ts";
import { createTeamService } from "../teams/team-service.ts";
import type { Caches } from "./caches.ts";
import { meterRuns, meterVerify } from "./meters.ts";

export interface ServicesParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly stores: Stores;
  readonly caches: Caches;
  readonly secrets: ServiceSecrets;
  /** Where the system says how the hosts of apps become addresses, if not in its usual files. */
  readonly nameFiles?: NameFilePaths | undefined;
  /** Checks the callers that watch keys, and says when a check is worth making at once. */
  readonly watchAccess: Pick<WatchKeysParts, "checkAccess" | "onSessionEnded">;
}

export type Services = ReturnType<typeof createServices>;

/** Creates Keyrun's own services and the checks that a run must pass, in the order of a request. */
export function createServices(parts: ServicesParts) {
  const { config, clock, log, metrics, stores, caches, secrets } = parts;
  const { planLimits, keysPerTeamMax, keyPrefix } = config;
  const { members, preview, users } = stores;
  const { changeSecurityState } = caches;
  const form = createKeyForm(config.keyPrefix, secrets);
  const verifyKey = meterVerify(createVerifyKey({ form, secrets, evidence: caches.keys }), metrics);
  const limiter = createLimiter({ clock, windowMs: bounds.limitWindowMs, logsMax: bounds.teamLogsMax });
  const lastUses = createLastUses({
    store: stores.keys,
    flushMs: bounds.lastUseFlushMs,
    onError: (err) => log.warn({ err }, "last uses could not be written; they are kept for the next write"),
  });
  const keyEvents = createKeyEvents();
  const keyring = createKeyring({
    clock,
    store: stores.keys,
    teams: caches.teams,
    form,
    secrets,
    randomBytes,
    activeMax: keysPerTeamMax,
    lastUseTimeMs: lastUses.lastUseTimeMs,
    changeSecurityState,
    publish: keyEvents.publish,
  });
  const limits = { clock, limiter, planLimits, teams: caches.teams };
  const mayAdmit = stores.guard.holds;
  const decide = createDecide({ ...limits, verifyKey, keyUsed: lastUses.record, mayAdmit });
  const runner = createAppRunner({
    clock,
    appRunsMax: config.appRunsMax,
    outputBytesMax: config.appOutputBytesMax,
    nameFiles: parts.nameFiles,
  });
  const findRunnableApp = createFindRunnableApp(caches.apps);
  const run = meterRuns(runner.run, metrics, clock);
  const newRunId = createRunIds(randomBytes);
  const repeatable = createRepeatableRuns({
    ...{ clock, store: stores.runRecords, run, newRunId },
    keptHours: config.idempotencyHours,
    async recordsMaxOf(teamId) {
      const team = caches.teams.peek(teamId) ?? (await caches.teams.load(teamId));
      const perMinute = team ? planLimits[team.plan] : 0;
      return Math.max(bounds.runRecordsMin, bounds.runRecordMinutes * perMinute);
    },
    onWriteFailed: (err) => log.warn({ err }, "records of runs could not be written; they are tried again"),
  });
  const runService = createRunService({
    ...{ findRunnableApp, run, stream: runner.stream, repeatable, newRunId },
    slots: createRunSlots({ clock, appRunsMax: config.appStreamsMax, runsMax: bounds.streamsMax }),
    watchRights: createWatchRights({ recheckMs: bounds.streamRecheckMs }),
    startMsMax: bounds.streamQuietMs,
    checkKey: createCheckKey(caches.keys),
  });
  return {
    admit: createAdmit(decide),
    findRunnableApp,
    runService,
    runner,
    repeatable,
    lastUses,
    limiter,
    keyEvents,
    served: [
      served(RunService, runService),
      served(KeyService, {
        ...createKeyService({ keyring, teams: caches.teams, decide, keysPerTeamMax, keyPrefix }),
        watchKeys: createWatchKeys({
          teams: caches.teams,
          events: keyEvents,
          ...parts.watchAccess,
        }),
      }),
      served(
        TeamService,
        createTeamService({
          ...limits,
          ...{ store: stores.teams, members, preview, users, changeSecurityState },
          belongings: {
            countActiveKeys: stores.keys.countActive,
            appsLimitedTo: stores.apps.limitedTo,
            deleteKeys: createDeleteKeys({ store: stores.keys, changeSecurityState }),
            deleteRunRecords: repeatable.deleteOfTeam,
            teamDeleted: keyEvents.endTeam,
          },
        }),
      ),
      served(
        AppService,
        createAppService({ clock, teams: caches.teams, store: stores.apps, changeSecurityState }),
      ),
    ],
  };
}
