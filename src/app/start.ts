/** The composition root: open, wire, serve; and the way back when Keyrun stops. */

import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import { createAuditService } from "../audit/audit-service.ts";
import { createInstanceTokens } from "../auth/instance-tokens.ts";
import { checkPolicy } from "../auth/policy.ts";
import { bounds } from "../bounds.ts";
import { createFleetService } from "../fleet/fleet.ts";
import { createOutcomes } from "../http/outcomes.ts";
import { cutText, fail, Refusal, unavailable } from "../refusal/refusal.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { auditService, createAuditCalls } from "../rpc/audit/audit-calls.ts";
import { checkAudited } from "../rpc/audit/audited-methods.ts";
import { served } from "../rpc/served.ts";
import { createRequestTracker, type Drainable, drain } from "../server/drain.ts";
import type { Config } from "../settings/config.ts";
import type { HostAndPort } from "../settings/host.ts";
import { noteStart } from "./audit.ts";
import { addressSettings, bind, requireFreePorts, writeAddressFile } from "./bind.ts";
import { createInternalListener, createPublicListener, operationServices } from "./listeners.ts";
import { type AppParts, type Closer, type Opened, open, type Start } from "./open.ts";
import { createPublicHandler, createWithScreen, screenNotice } from "./public-handler.ts";
import { createRequestObservers, nameRoutes } from "./request-observers.ts";
import { createServiceAccess, type ServiceAccess } from "./service-tokens.ts";
import { createServices, type Services } from "./services.ts";
import { createSignIn, type SignIn } from "./sign-in.ts";
import { createStoreReadiness } from "./store-readiness.ts";

/** Keyrun, running. */
export interface App {
  readonly publicAddress: HostAndPort;
  readonly internalAddress: HostAndPort;
  /**
   * Drains and stops. A request that ends within the drain does not fail. A second call returns the
   * same promise.
   */
  close(): Promise<void>;
}

/**
 * The composition root: settings become stores, services and listeners, in three steps. Throws
 * StartRefused, with words for the operator, if it would be unsafe to go on. Then nothing stays
 * open. Where the store fails meanwhile, it begins anew, for `storeStartMsMax`.
 */
export async function startApp(config: Config, parts: AppParts): Promise<App> {
  const { clock, log, signal } = parts;
  // A first start that is refused for a port leaves no folder. Later ones look at the store first:
  // that another Keyrun has it says more than its port.
  if (!existsSync(config.dataDir)) await requireFreePorts(config);
  const untilMs = clock.monotonicMs() + bounds.storeStartMsMax;
  for (;;) {
    const closers: Closer[] = [];
    const start = { config, parts, closers };
    try {
      return await serve(start, await wire(start, await open(start)));
    } catch (thrown) {
      await closeInReverse(closers);
      if (!(thrown instanceof Refusal) || !storeReasons.includes(thrown.reason)) throw thrown;
      const isPassing = thrown.reason === "UNAVAILABLE" && clock.monotonicMs() < untilMs;
      if (!isPassing || signal?.aborted) throw storeRefused(thrown, parts);
      log.warn({ cause: thrown.cause }, "the store failed during the start: it is tried again");
      await sleep(bounds.storeStartPauseMs, undefined, { signal }).catch(() => {});
    }
  }
}

/** A store that opens may fail at the first write, as on a full disk. */
function storeRefused({ message, cause }: Refusal, { redact = (text) => text }: AppParts): StartRefused {
  const why =
    cause instanceof Error ? ` (${cutText(redact(cause.message), bounds.refusalMessageBytesMax)})` : "";
  return new StartRefused(`The store failed during the start${why}. ${message}`, { cause });
}

const storeReasons: readonly string[] = ["STORE_FULL", "UNAVAILABLE"];

async function closeInReverse(closers: readonly Closer[]): Promise<void> {
  for (const close of closers.toReversed()) await close();
}

type Wired = Awaited<ReturnType<typeof wire>>;

/** Step 2: services, handlers and listeners, in the order of a request. Nothing is served yet. */
async function wire({ config, parts, closers }: Start, opened: Opened) {
  const { clock, log, version } = parts;
  const { audit, stores, secrets, unread, bytes, metrics, caches, membership, sharedLimit, load, traces } =
    opened;
  const isWatched = parts.writeAccess !== undefined || traces !== undefined;
  const shared = { config, clock, log, stores, caches, secrets, membership };
  const signIn = await createSignIn({ ...shared, isScreenMissing: opened.isScreenMissing });
  const serviceAccess = createServiceAccess({ ...shared, serviceToken: opened.serviceToken });
  const watchAccess = watchAccessOf(signIn, serviceAccess);
  const { leaveTeam: leaveServiceTokens } = serviceAccess;
  const { nameFiles, redact } = parts;
  const services = createServices({
    ...shared,
    load,
    metrics,
    bytes,
    sharedLimit,
    watchAccess,
    nameFiles,
    redact,
    audit,
    traces,
    isWatched,
    leaveServiceTokens,
  });
  const { watchedUses, keySweep, lastUses, usage, idempotent, background } = services;
  /** What works by itself from the start on, in the order in which it is opened. */
  const running = [
    ...[signIn.sessions, watchedUses, keySweep, lastUses, usage, serviceAccess.lastUses, idempotent],
    { start: background.begin, close: background.close },
  ];
  closers.push(...running.map(({ close }) => close), services.runner.close);
  await background.open();

  const storeReadiness = createStoreReadiness({ stores, log, ...membership });
  const { readiness } = storeReadiness;
  const streamsEnd = new AbortController();
  const teamCreateTimeMs = async (teamId: string) => (await stores.teams.find(teamId))?.createTimeMs;
  const own = [
    ...services.served,
    signIn.served,
    serviceAccess.served,
    served(AuditService, createAuditService({ store: stores.audit, log: audit, teamCreateTimeMs })),
    served(FleetService, createFleetService(membership.fleet?.nudged)),
  ].map((each) => auditService(audit, each));
  const all = [...own, ...operationServices(own, { readiness, streamsEnd: streamsEnd.signal })];
  const descriptors = all.map(({ service }) => service);
  checkPolicy(descriptors);
  checkAudited(descriptors);
  const nameRoute = nameRoutes(descriptors, opened.screenFiles?.keys() ?? []);

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
    audit: createAuditCalls(audit),
    verifyServiceToken: serviceAccess.verify,
    isInstanceToken: createInstanceTokens(secrets).isOne,
    sessions: signIn.access,
  };
  const withScreen = createWithScreen(
    { ...signIn, audit, clock, publicUrl: config.publicUrl },
    opened.screenFiles,
  );
  const handler = await createPublicHandler({ config, clock, version, readiness, services, withScreen });
  const publicListener = createPublicListener({ ...basis, handler });
  const { tls } = opened;
  const internalListener = createInternalListener({ ...basis, tls: tls?.current() });
  tls?.onRenewed(internalListener.setTls);
  tls?.start();
  const listeners = [publicListener, internalListener];
  opened.observed.process = () => ({
    connections: { public: publicListener.connections(), internal: internalListener.connections() },
    openStreams: services.openStreams(),
    backgroundRuns: services.background.state(),
    activeKeys: services.activeKeys(),
    expiringKeys: services.keySweep.expiringKeys(),
  });
  closers.push(async () => listeners.forEach((listener) => void listener.destroy()));
  const drainables = [...listeners, streams(services, streamsEnd), runsOfNobody(services)];
  const { screenFiles, teamId } = opened;
  const noted = { secrets, serviceToken: opened.serviceToken, store: stores.audit };
  return {
    signIn,
    running,
    services,
    storeReadiness,
    requests,
    drainables,
    screenFiles,
    teamId,
    publicListener,
    internalListener,
    load,
    audit,
    noted,
  };
}

/** The checks of a caller that was admitted and still watches: a member, or a service. */
function watchAccessOf({ watchAccess }: SignIn, { check }: ServiceAccess): SignIn["watchAccess"] {
  return {
    ...watchAccess,
    checkAccess: (principal, teamId) =>
      principal.kind === "service" ? check(principal, teamId) : watchAccess.checkAccess(principal, teamId),
  };
}

/** Open streams end when the drain begins; otherwise they would hold it up to its end. */
function streams({ keyEvents }: Services, streamsEnd: AbortController): Drainable {
  const closeConnections = () => {
    keyEvents.close();
    streamsEnd.abort(fail("UNAVAILABLE"));
  };
  return { closeConnections, stopAccepting: () => {}, drained: async () => {}, destroy: () => {} };
}

/**
 * A run with a key goes on when its caller leaves, and one in the background has none: the drain
 * waits for the runs themselves. It does not wait for those who wait for one in the background.
 */
function runsOfNobody({ idempotent, background }: Services): Drainable {
  return {
    closeConnections: background.endWaits,
    stopAccepting: () => {},
    drained: async () => void (await Promise.all([idempotent.idle(), background.idle()])),
    destroy: () => {},
  };
}

/** Step 3: binds the listeners, says where they are, and turns ready. */
async function serve({ config, parts, closers }: Start, wired: Wired): Promise<App> {
  const { signIn, running, storeReadiness, screenFiles, teamId, load, audit, noted } = wired;
  const { publicListener, internalListener } = wired;
  const publicAddress = await bind(
    publicListener,
    { host: config.host, port: config.port },
    addressSettings.public,
  );
  signIn.bound(publicAddress);
  const internalAddress = await bind(
    internalListener,
    { host: config.grpcHost, port: config.grpcPort },
    addressSettings.internal,
  );
  closers.push(await writeAddressFile(config.dataDir, internalAddress, parts.log));
  for (const each of [...running, audit]) each.start();
  parts.announce({ publicAddress, internalAddress, teamId, screen: screenNotice(signIn, screenFiles) });
  const noteStop = noteStart(audit, { ...noted, config, internalAddress, log: parts.log });
  closers.push(load.watch(), storeReadiness.begin(), noteStop);

  let closing: Promise<void> | undefined;
  const close = async () => {
    await drainAll({ config, parts, closers }, wired);
    await closeInReverse(closers);
  };
  return {
    publicAddress,
    internalAddress,
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

async function drainAll({ config, parts }: Start, wired: Wired): Promise<void> {
  const { storeReadiness, drainables, requests } = wired;
  const { aborted } = await drain({
    markUnready: () => storeReadiness.readiness.set(false, "draining"),
    drainables,
    requests,
    delayMs: config.drainDelayMs,
    msMax: config.drainMsMax,
    portClosedMs: bounds.drainPortClosedMs,
    abortGraceMs: bounds.abortGraceMs,
    abortReason: () => unavailable({ mayHaveRun: true }),
  });
  if (aborted > 0) parts.log.warn({ aborted }, "requests were still running at the end of the drain");
}
