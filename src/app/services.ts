/** Step 2 of a start: Keyrun's own services, wired in the order of a request. */

import { randomBytes } from "node:crypto";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { createAdmit, type Load } from "../admission/admission.ts";
import { createDecide } from "../admission/decide.ts";
import { createAppService } from "../apps/app-service.ts";
import type { AuditLog } from "../audit/audit-log.ts";
import { bounds } from "../bounds.ts";
import { currentRecords } from "../cache/record-source.ts";
import { createFleetKeyEvents, createKeyEvents } from "../keys/key-events.ts";
import { deletedKeyVersion } from "../keys/key-life.ts";
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
import { createKeyVerifier } from "../keys/verify-key.ts";
import { createWatchedUses, createWatchKeys, type WatchKeysParts } from "../keys/watch-keys.ts";
import type { TeamLimiter } from "../limit/limit-decision.ts";
import { createLimiter } from "../limit/limiter.ts";
import { createLedger, type Ledger } from "../quota/ledger.ts";
import { createAuditCalls } from "../rpc/audit/audit-calls.ts";
import { runMsMax, served } from "../rpc/served.ts";
import type { TeamDependents } from "../teams/delete-team.ts";
import { createTeamService } from "../teams/team-service.ts";
import { createGetUsage } from "../usage/get-usage.ts";
import { createUsage, type Usage } from "../usage/usage.ts";
import { meterVerdicts, meterVerifier } from "./meters.ts";
import { noteCallers } from "./request-observers.ts";
import { type Runs, type RunsParts, wireRuns } from "./wire-runs.ts";

export interface ServicesParts extends RunsParts {
  readonly audit: AuditLog;
  readonly load: Load;
  /** Whether requests have notes. */
  readonly isWatched: boolean;
  /** Undefined: this process counts alone. */
  readonly sharedLimit: TeamLimiter | undefined;
  readonly secrets: ServiceSecrets;
  /** Checks the callers that watch keys, and says when a check is worth making at once. */
  readonly watchAccess: Pick<WatchKeysParts, "checkAccess" | "onSessionEnded">;
  /** As in `TeamDependents`. */
  readonly leaveServiceTokens: TeamDependents["leaveServiceTokens"];
}

export type Services = ReturnType<typeof createServices>;

/**
 * Creates Keyrun's own services and the checks that a run must pass. Each part returns what the
 * next ones need. A new service is a line in `served`.
 */
export function createServices(parts: ServicesParts) {
  const keys = wireKeys(parts);
  const usage = wireUsage(parts);
  const ledger = wireQuotas(parts);
  const decisions = wireDecisions(parts, { keys, usage, ledger });
  const runs = wireRuns({ ...parts, randomBytes }, usage);
  const { admit, limiter } = decisions;
  const auditCalls = createAuditCalls(parts.audit);
  /** For REST. Over RPC every method has its event from `invoke.ts`. */
  const revokeLeakedKey: typeof keys.revokeLeakedKey = (request, call) =>
    auditCalls.during(KeyService.method.revokeLeakedKey, { request, call }, () =>
      keys.revokeLeakedKey(request, call),
    );
  const { lastUses, keyEvents, keySweep, watchedUses } = keys;
  const { runService, runner, keptRuns, findApp, findRunnableApp, checkApp } = runs;
  return {
    admit,
    limiter,
    lastUses,
    keyEvents,
    keySweep,
    watchedUses,
    usage,
    ledger,
    runService,
    runner,
    keptRuns,
    findApp,
    findRunnableApp,
    activeKeys: keys.activeKeys,
    quotaShares: () =>
      [...ledger.quotas.knownTeams()].map(({ used, limit, granted }) => used / (limit + granted)),
    openStreams: () => ({ app: runs.openStreams(), keys: keyEvents.watchers() }),
    auditCalls,
    revokeLeakedKey,
    served: [
      served(RunService, runService, { unaryMsMax: runMsMax }),
      served(KeyService, wireKeyService(parts, { keys, usage, decisions })),
      served(TeamService, wireTeamService(parts, { keys, usage, ledger, decisions, runs })),
      served(
        AppService,
        { ...wireAppService(parts, runs), checkApp },
        { unaryMsMax: runMsMax, only: [AppService.method.checkApp] },
      ),
    ],
  };
}

type Keys = ReturnType<typeof wireKeys>;
type Decisions = ReturnType<typeof wireDecisions>;

/** The keys of teams: how they are made, end, are used, and who learns of it. */
function wireKeys(parts: ServicesParts) {
  const { config, clock, log, metrics, stores, caches, secrets, audit } = parts;
  const { changeSecurityState, mayAdmit, fleet } = parts.membership;
  const form = createKeyForm(config.keyPrefix, secrets);
  const activeKeys = createActiveKeys({ clock, keysMax: bounds.verifiedKeysMax });
  const lastUses = createLastUses({
    store: activeKeys.noting(stores.keys),
    flushMs: bounds.lastUseFlushMs,
    onError: (err) => log.warn({ err }, "last uses could not be written; they are kept for the next write"),
  });
  const keyEvents = createKeyEvents();
  // In a fleet every instance learns of a change in the same way, the one that made it too.
  const publish = fleet ? () => {} : keyEvents.publish;
  if (fleet) {
    const { lastUseTimeMs } = lastUses;
    parts.membership.listen(
      createFleetKeyEvents({ events: keyEvents, find: stores.keys.find, lastUseTimeMs }),
    );
  }
  const changing = {
    clock,
    store: stores.keys,
    teams: currentRecords(caches.teams, mayAdmit),
    form,
    secrets,
    randomBytes,
    changeSecurityState,
    publish,
    expiring: audit.keyExpired,
  };
  const keyring = createKeyring({
    ...changing,
    activeMax: config.keysPerTeamMax,
    lastUseTimeMs: lastUses.lastUseTimeMs,
  });
  // A backup that is restored does not know it: this line does.
  const onRevoked = ({ teamId, id: keyId }: KeyRecord) => log.info({ teamId, keyId }, "a key was revoked");
  return {
    changing,
    keyring,
    onRevoked,
    lastUses,
    keyEvents,
    activeKeys: activeKeys.count,
    verifier: meterVerifier(createKeyVerifier({ clock, form, secrets, evidence: caches.keys }), metrics),
    watchedUses: createWatchedUses({ clock, events: keyEvents, list: keyring.list }),
    keySweep: createKeySweep({
      clock,
      store: stores.keys,
      expireKeys: keyring.expireKeys,
      changeSecurityState,
      revoking: audit.keyRevoked,
      publish,
      withLastUse: keyring.withLastUse,
      onRevoked,
      onFailed: (err) => log.warn({ err }, "a sweep of the keys failed; what is left is tried again"),
    }),
    revokeLeakedKey: createRevokeLeakedKey({
      clock,
      form,
      secrets,
      changeSecurityState,
      onRevoked,
      readKey: caches.rereadKey,
      revoke: keyring.revoke,
    }),
  };
}

/** How keys are used. What one used is forgotten once it or its team is deleted, anywhere. */
function wireUsage({ clock, log, stores, membership }: ServicesParts): Usage {
  const incarnation = randomBytes(8).toString("hex");
  const usage = createUsage({ clock, store: stores.usage, log, incarnation });
  membership.listen({
    apply(changes) {
      for (const { kind, id, version } of changes) {
        if (kind === "key" && version === deletedKeyVersion) usage.keyDeleted(id);
      }
    },
    // A missed deletion may leave a new team the end of an old team's run. It is not worth a read.
    missed() {},
  });
  return usage;
}

/**
 * The requests that this instance holds of quotas. In a fleet it knows which others may hold some.
 */
function wireQuotas({ clock, log, stores, membership }: ServicesParts): Ledger {
  const own = randomBytes(8).toString("hex");
  const members = () => membership.fleet?.members();
  const ledger = createLedger({
    clock,
    store: stores.quotas,
    owner: () => members()?.ownId ?? own,
    isLive: (owner) => members()?.leases.some(({ id }) => id === owner) ?? false,
    onFailed: (err) => log.warn({ err }, "old quotas could not be removed; tried again an hour later"),
  });
  membership.listen({
    apply(changes) {
      for (const { kind, id } of changes) {
        if (kind === "team") ledger.dropTeam(id);
        // Also of one that nobody asks for before the quota is a higher one again.
        else if (kind === "plan-limits") ledger.dropAll();
      }
    },
    missed: ledger.dropAll,
  });
  return ledger;
}

/** What is decided of a key, and the limits that are spent by it. */
function wireDecisions(
  parts: ServicesParts,
  { keys, usage, ledger }: { readonly keys: Keys; readonly usage: Usage; readonly ledger: Ledger },
) {
  const { clock, metrics, caches, load } = parts;
  const { mayAdmit, whyNot, limitOf, quotaOf } = parts.membership;
  const limiter = createLimiter({
    clock,
    windowMs: bounds.limitWindowMs,
    logsMax: bounds.teamLogsMax,
    keyLogsMax: bounds.keyLogsMax,
  });
  const limits = {
    clock,
    limiter: parts.sharedLimit ?? limiter,
    limitOf,
    quotaOf,
    quotas: ledger.quotas,
    teams: caches.teams,
  };
  const decide = createDecide({
    ...limits,
    verifier: keys.verifier,
    keyUsed: keys.lastUses.record,
    usage: usage.count,
    mayAdmit,
    whyNot,
  });
  const admit = createAdmit(decide, load, parts.config.keyHeader);
  return {
    limiter,
    limits,
    decide: meterVerdicts(decide, metrics),
    admit: parts.isWatched ? noteCallers(admit) : admit,
  };
}

function wireKeyService(
  parts: ServicesParts,
  { keys, usage, decisions }: { readonly keys: Keys; readonly usage: Usage; readonly decisions: Decisions },
) {
  const { config, clock, stores, caches, membership } = parts;
  const { keyring, changing, onRevoked } = keys;
  const { teams, apps } = caches;
  return {
    ...createKeyService({
      clock,
      keyring,
      teams,
      keysPerTeamMax: config.keysPerTeamMax,
      keyPrefix: config.keyPrefix,
      readRestrictions: createReadRestrictions({ apps, limitOf: membership.limitOf }),
      limitOf: membership.limitOf,
      quotas: decisions.limits.quotas,
      decide: decisions.decide,
      onRevoked,
    }),
    watchKeys: createWatchKeys({
      teams,
      events: keys.keyEvents,
      mayAdmit: membership.mayAdmit,
      ...parts.watchAccess,
    }),
    updateKey: createUpdateKey({ ...changing, teams, withLastUse: keyring.withLastUse }),
    rotateKey: createRotateKey({
      ...changing,
      expireKeys: keyring.expireKeys,
      withLastUse: keyring.withLastUse,
      onRevoked,
    }),
    revokeLeakedKey: keys.revokeLeakedKey,
    getUsage: createGetUsage({ clock, teams, keys: stores.keys, read: usage.read }),
  };
}

function wireTeamService(
  parts: ServicesParts,
  {
    keys,
    usage,
    ledger,
    decisions,
    runs,
  }: {
    readonly keys: Keys;
    readonly usage: Usage;
    readonly ledger: Ledger;
    readonly decisions: Decisions;
    readonly runs: Runs;
  },
) {
  const { stores, membership } = parts;
  const { changing, keyring, keyEvents } = keys;
  const { members, preview, users } = stores;
  return createTeamService({
    ...decisions.limits,
    newRequestId: () => randomBytes(16).toString("hex"),
    teams: changing.teams,
    store: stores.teams,
    members,
    preview,
    users,
    changeSecurityState: membership.changeSecurityState,
    lockTeam: stores.fleet?.lockTeam,
    dependents: {
      countActiveKeys: keyring.countActive,
      appsLimitedTo: stores.apps.limitedTo,
      deleteKeys: createDeleteKeys({ ...changing, onDeleted: usage.keyDeleted }),
      deleteRunRecords: runs.keptRuns.deleteOfTeam,
      deleteUsage: usage.deleteOfTeam,
      deleteQuotas: ledger.deleteOfTeam,
      leaveServiceTokens: parts.leaveServiceTokens,
      teamDeleted: keyEvents.endTeam,
    },
  });
}

function wireAppService({ clock, stores, caches, membership }: ServicesParts, { keptRuns }: Runs) {
  const { mayAdmit, changeSecurityState } = membership;
  const teams = currentRecords(caches.teams, mayAdmit);
  return createAppService({
    clock,
    teams,
    store: stores.apps,
    changeSecurityState,
    cancelRuns: keptRuns.cancelAll,
  });
}
