import { randomBytes } from "node:crypto";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { createAppService } from "../apps/app-service.ts";
import type { Clock } from "../clock.ts";
import { bounds, type Config } from "../config.ts";
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
import { createAdmit } from "../run/admission.ts";
import { createAppRunner } from "../run/app-runner.ts";
import { createRunIds } from "../run/run-id.ts";
import { createFindRunnableApp, createRunService } from "../run/run-service.ts";
import type { Stores } from "../store/stores.ts";
import { createTeamService } from "../teams/team-service.ts";
import type { TeamRecord } from "../teams/team-store.ts";
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
  /** Who watches keys: whether they still may, and when it is worth asking at once. */
  readonly watchAccess: Pick<WatchKeysParts, "checkAccess" | "onSessionEnded">;
}

export type Services = ReturnType<typeof createServices>;

/** Keyrun's own services and what a run must pass, in the order of a request. */
export function createServices(parts: ServicesParts) {
  const { config, clock, log, metrics, stores, caches, secrets } = parts;
  const { planLimits, keysPerTeamMax } = config;
  const form = createKeyForm(config.keyPrefix, secrets);
  const verifyKey = meterVerify(createVerifyKey({ form, secrets, evidence: caches.keys }), metrics);
  const limiter = createLimiter({ clock, windowMs: bounds.limitWindowMs, logsMax: bounds.teamLogsMax });
  const lastUses = createLastUses({
    store: stores.keys,
    flushMs: bounds.lastUseFlushMs,
    onError: (err) => log.warn({ err }, "last uses could not be written; they are kept for the next write"),
  });
  const keyUsed = lastUses.record;
  const keyEvents = createKeyEvents();
  const keyring = createKeyring({
    clock,
    store: stores.keys,
    form,
    secrets,
    randomBytes,
    activeMax: keysPerTeamMax,
    lastUseTimeMs: lastUses.lastUseTimeMs,
    raiseFloor: (evidence) => caches.keys.raise(evidence.id, evidence.version, evidence),
    publish: keyEvents.publish,
  });
  const teamChanged = (team: TeamRecord) => caches.teams.raise(team.id, team.version, team);
  const limits = { clock, limiter, planLimits, teams: caches.teams, verifyKey, keyUsed };
  const mayAdmit = stores.guard.holds;
  const admit = createAdmit({ ...limits, mayAdmit });
  const runner = createAppRunner({
    clock,
    appRunsMax: config.appRunsMax,
    outputBytesMax: config.appOutputBytesMax,
  });
  const findRunnableApp = createFindRunnableApp(caches.apps);
  const runService = createRunService({
    findRunnableApp,
    run: meterRuns(runner.run, metrics, clock),
    newRunId: createRunIds(randomBytes),
  });
  return {
    admit,
    findRunnableApp,
    runService,
    runner,
    lastUses,
    keyEvents,
    served: [
      served(RunService, runService),
      served(KeyService, {
        ...createKeyService({ ...limits, keyring, keysPerTeamMax, mayAdmit }),
        watchKeys: createWatchKeys({
          teams: caches.teams,
          events: keyEvents,
          ...parts.watchAccess,
        }),
      }),
      served(TeamService, createTeamService({ ...limits, ...teamStores(stores), teamChanged })),
      served(AppService, createAppService({ ...limits, store: stores.apps, appsChanged: caches.apps.raise })),
    ],
  };
}

function teamStores(stores: Stores) {
  const { teams: store, members, preview, users } = stores;
  return { store, members, preview, previewWithdrawn: users.release };
}
