import { randomBytes } from "node:crypto";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { createAdmit, createCheckKey, type Load } from "../admission/admission.ts";
import { createDecide } from "../admission/decide.ts";
import { createAppService } from "../apps/app-service.ts";
import type { AuditLog } from "../audit/audit-log.ts";
import type { Clock } from "../base/clock.ts";
import { createRunIds } from "../base/run-ids.ts";
import { bounds } from "../bounds.ts";
import { currentRecords } from "../cache/current-records.ts";
import { everyInstanceHas } from "../fleet/who-may-join.ts";
import { createFleetKeyEvents, createKeyEvents } from "../keys/key-events.ts";
import { createKeyService } from "../keys/key-service.ts";
import type { KeyRecord } from "../keys/key-store.ts";
import { createDeleteKeys, createKeySweep } from "../keys/key-sweep.ts";
import { createKeyForm } from "../keys/key-value.ts";
import { createKeyring } from "../keys/keyring.ts";
import { createActiveKeys, createLastUses } from "../keys/last-uses.ts";
import { createReadRestrictions } from "../keys/read-restrictions.ts";
import { createRevokeLeakedKey } from "../keys/revoke-leaked-key.ts";
import { createRotateKey } from "../keys/rotate-key.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import { createUpdateKey } from "../keys/update-key.ts";
import { createVerifyKey } from "../keys/verify-key.ts";
import { createWatchedUses, createWatchKeys, type WatchKeysParts } from "../keys/watch-keys.ts";
import type { ByteBudget } from "../limit/byte-budget.ts";
import { limitBounds } from "../limit/limit-bounds.ts";
import { createLimiter, type TeamLimiter } from "../limit/limiter.ts";
import type { Log } from "../log/log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { fail } from "../refusal/refusal.ts";
import { auditMethod } from "../rpc/audit/audit-calls.ts";
import { served } from "../rpc/served.ts";
import { createAppRunner } from "../run/app-runner.ts";
import type { NameFilePaths } from "../run/name-files.ts";
import { createRepeatableRuns } from "../run/repeat/repeatable-runs.ts";
import { createFindRunnableApp, createRunService } from "../run/run-service.ts";
import { createRunSlots } from "../run/run-slots.ts";
import { createWatchRights } from "../run/watch-rights.ts";
import type { Config } from "../settings/config.ts";
import type { Stores } from "../store/stores.ts";
import type { TeamBelongings } from "../teams/delete-team.ts";
import { createTeamService } from "../teams/team-service.ts";
import type { Traces } from "../traces/traces.ts";
import { createGetUsage } from "../usage/get-usage.ts";
import type { Caches } from "./caches.ts";
import { createKeyUsage } from "./key-usage.ts";
import type { Membership } from "./membership.ts";
import { meterRuns, meterVerdicts, meterVerify } from "./meters.ts";
import { noteCallers } from "./note-callers.ts";
import { createStreamMeters } from "./stream-meters.ts";

export interface ServicesParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly audit: AuditLog;
  readonly metrics: Metrics;
  readonly bytes: ByteBudget;
  readonly stores: Stores;
  readonly caches: Caches;
  readonly membership: Membership;
  readonly load: Load;
  /** Undefined: requests are not traced. */
  readonly traces: Traces | undefined;
  /** Whether requests have notes. */
  readonly isWatched: boolean;
  /** Undefined: this process counts alone. */
  readonly sharedLimit: TeamLimiter | undefined;
  readonly secrets: ServiceSecrets;
  /** Where the system says how the hosts of apps become addresses, if not in its usual files. */
  readonly nameFiles?: NameFilePaths | undefined;
  /** Checks the callers that watch keys, and says when a check is worth making at once. */
  readonly watchAccess: Pick<WatchKeysParts, "checkAccess" | "onSessionEnded">;
  /** As in `TeamBelongings`. */
  readonly leaveServiceTokens: TeamBelongings["leaveServiceTokens"];
}

export type Services = ReturnType<typeof createServices>;

/** The schema with which keys expire and are replaced. */
const keyLifeSchema = 8;

/** Creates Keyrun's own services and the checks that a run must pass, in the order of a request. */
export function createServices(parts: ServicesParts) {
  const { config, clock, log, metrics, stores, caches, secrets, traces, bytes } = parts;
  const { keysPerTeamMax, keyPrefix } = config;
  const { members, preview, users } = stores;
  const { changeSecurityState, mayAdmit, whyNot, limitOf, fleet } = parts.membership;
  const teams = currentRecords(caches.teams, mayAdmit);
  const form = createKeyForm(config.keyPrefix, secrets);
  const verifyKey = meterVerify(createVerifyKey({ clock, form, secrets, evidence: caches.keys }), metrics);
  const limiter = createLimiter({
    ...{ clock, windowMs: bounds.limitWindowMs },
    ...{ logsMax: bounds.teamLogsMax, keyLogsMax: limitBounds.keyLogsMax },
  });
  const activeKeys = createActiveKeys({ clock, keysMax: bounds.verifiedKeysMax });
  const lastUses = createLastUses({
    store: activeKeys.noting(stores.keys),
    flushMs: bounds.lastUseFlushMs,
    onError: (err) => log.warn({ err }, "last uses could not be written; they are kept for the next write"),
  });
  const keyEvents = createKeyEvents();
  // In a fleet every instance learns of a change in the same way, the one that made it too.
  const publish = fleet ? () => {} : keyEvents.publish;
  const requireUpgraded = () => {
    if (fleet && !everyInstanceHas(keyLifeSchema, fleet.members().leases)) throw fail("FLEET_UPGRADING");
  };
  const keyringParts = {
    ...{ clock, store: stores.keys, teams, form, secrets, randomBytes },
    ...{ changeSecurityState, publish, requireUpgraded, expiring: parts.audit.keyExpired },
  };
  const keyring = createKeyring({
    ...keyringParts,
    ...{ activeMax: keysPerTeamMax, lastUseTimeMs: lastUses.lastUseTimeMs },
  });
  // A backup that is restored does not know it: this line does.
  const onRevoked = ({ teamId, id: keyId }: KeyRecord) => log.info({ teamId, keyId }, "a key was revoked");
  if (fleet) {
    const { lastUseTimeMs } = lastUses;
    const { find } = stores.keys;
    parts.membership.listen(createFleetKeyEvents({ events: keyEvents, find, lastUseTimeMs }));
  }
  const incarnation = randomBytes(8).toString("hex");
  const usage = createKeyUsage({ clock, store: stores.usage, log, incarnation }, parts.membership);
  const limits = { clock, limiter: parts.sharedLimit ?? limiter, limitOf, teams: caches.teams };
  const decide = createDecide({
    ...limits,
    verifyKey,
    keyUsed: lastUses.record,
    usage: usage.count,
    ...{ mayAdmit, whyNot },
  });
  const runner = createAppRunner({
    clock,
    appRunsMax: config.appRunsMax,
    outputBytesMax: config.appOutputBytesMax,
    nameFiles: parts.nameFiles,
  });
  const findRunnableApp = createFindRunnableApp(caches.apps);
  const ended = { clock, countRun: usage.runEnded };
  const run = meterRuns(traces?.run(runner.run) ?? runner.run, metrics, ended);
  const stream = traces?.stream(runner.stream) ?? runner.stream;
  const newRunId = createRunIds(randomBytes);
  const repeatable = createRepeatableRuns({
    ...{ clock, store: stores.runRecords, run, newRunId, bytes },
    keptHours: config.idempotencyHours,
    isShared: stores.fleet !== undefined,
    async recordsMaxOf(teamId) {
      const team = caches.teams.peek(teamId) ?? (await caches.teams.load(teamId));
      const perMinute = team ? limitOf(team.plan) : 0;
      return Math.max(bounds.runRecordsMin, bounds.runRecordMinutes * perMinute);
    },
    onWriteFailed: (err) => log.warn({ err }, "records of runs could not be written; they are tried again"),
  });
  const slots = createRunSlots({ clock, appRunsMax: config.appStreamsMax, runsMax: bounds.streamsMax });
  const streams = createStreamMeters({ slots, stream, metrics, ...ended });
  const runService = createRunService({
    ...{ findRunnableApp, run, stream: streams.stream, repeatable, newRunId, bytes },
    slots: streams.slots,
    watchRights: createWatchRights({ recheckMs: bounds.streamRecheckMs, mayAdmit }),
    startMsMax: bounds.streamQuietMs,
    checkKey: createCheckKey(caches.keys, clock),
  });
  const revokeLeakedKey = createRevokeLeakedKey({
    ...{ clock, form, secrets, changeSecurityState, onRevoked },
    readKey: caches.rereadKey,
    revoke: keyring.revoke,
  });
  return {
    // REST calls it without its service, whose methods are audited where they are served.
    revokeLeakedKey: auditMethod(parts.audit, KeyService.method.revokeLeakedKey, revokeLeakedKey),
    admit: parts.isWatched ? noteCallers(createAdmit(decide, parts.load)) : createAdmit(decide, parts.load),
    findRunnableApp,
    runService,
    runner,
    repeatable,
    lastUses,
    usage,
    limiter,
    keyEvents,
    activeKeys: activeKeys.count,
    openStreams: () => ({ app: streams.open(), keys: keyEvents.watchers() }),
    keySweep: createKeySweep({
      ...{ clock, store: stores.keys, expireKeys: keyring.expireKeys, changeSecurityState },
      ...{ revoking: parts.audit.keyRevoked, publish, withLastUse: keyring.withLastUse, onRevoked },
      onFailed: (err) => log.warn({ err }, "a sweep of the keys failed; what is left is tried again"),
    }),
    watchedUses: createWatchedUses({ clock, events: keyEvents, list: keyring.list }),
    served: [
      served(RunService, runService),
      served(KeyService, {
        ...createKeyService({
          ...{ clock, keyring, teams: caches.teams, keysPerTeamMax, keyPrefix },
          readRestrictions: createReadRestrictions({ apps: caches.apps, limitOf }),
          decide: meterVerdicts(decide, metrics),
          onRevoked,
        }),
        watchKeys: createWatchKeys({
          teams: caches.teams,
          events: keyEvents,
          mayAdmit,
          ...parts.watchAccess,
        }),
        updateKey: createUpdateKey({
          ...{
            clock,
            store: stores.keys,
            teams: caches.teams,
            changeSecurityState,
            publish,
            requireUpgraded,
            expiring: parts.audit.keyExpired,
          },
          withLastUse: keyring.withLastUse,
        }),
        rotateKey: createRotateKey({
          ...{ ...keyringParts, expireKeys: keyring.expireKeys, withLastUse: keyring.withLastUse, onRevoked },
        }),
        revokeLeakedKey,
        getUsage: createGetUsage({ clock, teams: caches.teams, keys: stores.keys, read: usage.read }),
      }),
      served(
        TeamService,
        createTeamService({
          ...limits,
          ...{ teams, store: stores.teams, members, preview, users, changeSecurityState },
          holdTeam: stores.fleet?.holdTeam,
          belongings: {
            countActiveKeys: keyring.countActive,
            appsLimitedTo: stores.apps.limitedTo,
            deleteKeys: createDeleteKeys({ ...keyringParts, onDeleted: usage.keyDeleted }),
            deleteRunRecords: repeatable.deleteOfTeam,
            deleteUsage: usage.deleteOfTeam,
            leaveServiceTokens: parts.leaveServiceTokens,
            teamDeleted: keyEvents.endTeam,
          },
        }),
      ),
      served(AppService, createAppService({ clock, teams, store: stores.apps, changeSecurityState })),
    ],
  };
}
