/** Step 2 of a start: services, handlers and listeners, in the order of a request. */

import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import { createAuditService } from "../audit/audit-service.ts";
import { createInstanceTokens } from "../auth/instance-tokens.ts";
import { checkPolicy } from "../auth/policy.ts";
import { createFleetService } from "../fleet/fleet.ts";
import { createOutcomes } from "../http/outcomes.ts";
import { fail } from "../refusal/refusal.ts";
import { checkAudited } from "../rpc/audit/audited-methods.ts";
import { served } from "../rpc/served.ts";
import { createRequestTracker, type Drainable } from "../server/drain.ts";
import { createInternalListener, createPublicListener, operationServices } from "./listeners.ts";
import type { Opened, Start } from "./open.ts";
import { createPublicHandler, createWithScreen } from "./public-handler.ts";
import { createRequestObservers, nameRoutes } from "./request-observers.ts";
import { createServiceAccess, type ServiceAccess } from "./service-tokens.ts";
import { createServices, type Services } from "./services.ts";
import { createSignIn, type SignIn } from "./sign-in.ts";
import { createStoreReadiness } from "./store-readiness.ts";

export type Wired = Awaited<ReturnType<typeof wire>>;

/** Wires all that serves. Nothing is served yet. */
export async function wire(start: Start, opened: Opened) {
  const callers = await wireCallers(start, opened);
  const services = wireServices(start, opened, callers);
  const running = await openRunning(start, services, callers);
  const api = wireApi(start, opened, { ...callers, services });
  const listeners = await wireListeners(start, opened, { ...callers, services, ...api });
  observe(opened, services, listeners);
  const { publicListener, internalListener, requests } = listeners;
  return {
    signIn: callers.signIn,
    running,
    storeReadiness: api.storeReadiness,
    requests,
    publicListener,
    internalListener,
    drainables: [
      publicListener,
      internalListener,
      openStreams(services, api.streamsEnd),
      detachedRuns(services),
    ],
  };
}

type Callers = Awaited<ReturnType<typeof wireCallers>>;
type Api = ReturnType<typeof wireApi>;
type Listeners = Awaited<ReturnType<typeof wireListeners>>;

/** The people and the services that may call, beside the keys of teams. */
async function wireCallers({ config, parts }: Start, opened: Opened) {
  const { stores, caches, secrets, membership, isScreenMissing, serviceToken } = opened;
  const shared = { config, clock: parts.clock, log: parts.log, stores, caches, secrets, membership };
  const signIn = await createSignIn({ ...shared, isScreenMissing });
  return { signIn, serviceAccess: createServiceAccess({ ...shared, serviceToken }) };
}

function wireServices(
  { config, parts }: Start,
  opened: Opened,
  { signIn, serviceAccess }: Callers,
): Services {
  const { clock, log, nameFiles, redact, writeAccess } = parts;
  return createServices({
    ...opened,
    config,
    clock,
    log,
    nameFiles,
    redact,
    watchAccess: watchAccessOf(signIn, serviceAccess),
    isWatched: writeAccess !== undefined || opened.traces !== undefined,
    leaveServiceTokens: serviceAccess.leaveTeam,
  });
}

/** What works by itself from the start on, in the order in which it is opened. */
async function openRunning({ closers }: Start, services: Services, { signIn, serviceAccess }: Callers) {
  const { watchedUses, keySweep, lastUses, usage, ledger, keptRuns, runner } = services;
  const running = [
    ...[signIn.sessions, watchedUses, keySweep, lastUses, usage, ledger, serviceAccess.lastUses],
    { start: keptRuns.begin, close: keptRuns.close },
  ];
  closers.push(...running.map(({ close }) => close), runner.close);
  await keptRuns.open();
  return running;
}

/** Every service of both listeners, and what they say of the store. */
function wireApi(
  { parts }: Start,
  { audit, stores, membership, screenFiles }: Opened,
  { services, signIn, serviceAccess }: Callers & HasServices,
) {
  const storeReadiness = createStoreReadiness({ stores, log: parts.log, ...membership });
  const streamsEnd = new AbortController();
  const teamCreateTimeMs = async (teamId: string) => (await stores.teams.find(teamId))?.createTimeMs;
  const own = [
    ...services.served,
    signIn.served,
    serviceAccess.served,
    served(AuditService, createAuditService({ store: stores.audit, log: audit, teamCreateTimeMs })),
    served(FleetService, createFleetService(membership.fleet?.nudged)),
  ];
  const operations = { readiness: storeReadiness.readiness, streamsEnd: streamsEnd.signal };
  const all = [...own, ...operationServices(own, operations)];
  const descriptors = all.map(({ service }) => service);
  checkPolicy(descriptors);
  checkAudited(descriptors);
  const nameRoute = nameRoutes(descriptors, screenFiles?.keys() ?? []);
  return { all, storeReadiness, streamsEnd, nameRoute };
}

async function wireListeners(
  { config, parts, closers }: Start,
  opened: Opened,
  { services, signIn, serviceAccess, all, storeReadiness, nameRoute }: Callers & Api & HasServices,
) {
  const { clock, log, version } = parts;
  const { audit, metrics, unread, bytes, load, traces, tls, screenFiles } = opened;
  const observers = createRequestObservers({ ...parts, nameRoute, traces });
  const requests = createRequestTracker();
  const basis = {
    config,
    clock,
    log,
    metrics,
    requests,
    unread,
    bytes,
    services: all,
    outcomes: observers.outcomes(createOutcomes({ log, metrics, clock, nameRoute })),
    observers,
    admit: services.admit,
    load,
    audit: services.auditCalls,
    verifyServiceToken: serviceAccess.verify,
    isInstanceToken: createInstanceTokens(opened.secrets).isOne,
    sessions: signIn.access,
  };
  const withScreen = createWithScreen({ ...signIn, audit, clock, publicUrl: config.publicUrl }, screenFiles);
  const { readiness } = storeReadiness;
  const handler = await createPublicHandler({
    config,
    clock,
    version,
    metrics,
    readiness,
    services,
    withScreen,
  });
  const publicListener = createPublicListener({ ...basis, handler });
  const internalListener = createInternalListener({ ...basis, tls: tls?.current() });
  tls?.onRenewed(internalListener.setTls);
  tls?.start();
  closers.push(async () => {
    for (const listener of [publicListener, internalListener]) listener.destroy();
  });
  return { publicListener, internalListener, requests };
}

interface HasServices {
  readonly services: Services;
}

/** Shows in the metrics what the parts say. */
function observe(opened: Opened, services: Services, { publicListener, internalListener }: Listeners): void {
  const { metrics, unread, bytes, membership, sharedLimit, stores } = opened;
  const { fleet } = membership;
  const leftMs = fleet?.leftMs ?? stores.guard.leftMs;
  metrics.observe({
    unreadAnswerBytes: () => unread.bytes,
    runBytes: () => bytes.bytes,
    process: () => ({
      connections: { public: publicListener.connections(), internal: internalListener.connections() },
      openStreams: services.openStreams(),
      backgroundRuns: services.keptRuns.state(),
      activeKeys: services.activeKeys(),
      expiringKeys: services.keySweep.expiringKeys(),
      quotaShares: services.quotaShares(),
    }),
    fleet: fleet && (() => ({ mayAdmit: fleet.mayAdmit(), instances: fleet.members().leases.length })),
    leaseLeftSeconds: leftMs && (() => leftMs() / 1_000),
    limitMode: sharedLimit && (() => sharedLimit.mode()),
  });
}

/** The checks of a caller that was admitted and still watches: a member, or a service. */
function watchAccessOf({ watchAccess }: SignIn, { check }: ServiceAccess): SignIn["watchAccess"] {
  return {
    ...watchAccess,
    checkAccess: (principal, teamId) =>
      principal.kind === "service" ? check(principal, teamId) : watchAccess.checkAccess(principal, teamId),
  };
}

/** Open streams end when the drain begins; otherwise they would delay it to its end. */
function openStreams({ keyEvents }: Services, streamsEnd: AbortController): Drainable {
  const closeConnections = () => {
    keyEvents.close();
    streamsEnd.abort(fail("UNAVAILABLE"));
  };
  return { closeConnections, stopAccepting: () => {}, drained: async () => {}, destroy: () => {} };
}

/**
 * A run with a key goes on when its caller leaves, and one in the background has none: the drain
 * waits for the runs themselves. It does not wait for those who wait for a run of another request.
 */
function detachedRuns({ keptRuns }: Services): Drainable {
  return {
    closeConnections: keptRuns.endWaits,
    stopAccepting: () => {},
    drained: keptRuns.idle,
    destroy: () => {},
  };
}
