import { randomBytes } from "node:crypto";
import { checkPolicy } from "../auth/policy.ts";
import { createServiceTokenCheck } from "../auth/service-token.ts";
import { bounds } from "../bounds.ts";
import type { Clock } from "../clock.ts";
import { createSecretFiles } from "../data-folder/secret-files.ts";
import { createOutcomes } from "../http/outcomes.ts";
import type { Log } from "../log.ts";
import { createMetrics } from "../metrics.ts";
import { Refusal, unavailable } from "../refusal/refusal.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import type { NameFilePaths } from "../run/name-files.ts";
import { readScreenFiles } from "../screen/screen-files.ts";
import { type Drainable, drain } from "../server/drain.ts";
import { createRequestTracker } from "../server/exchange/request-tracker.ts";
import { transportLimits } from "../server/transport-limits.ts";
import { UnreadAnswers } from "../server/unread-answers.ts";
import type { Config } from "../settings/config.ts";
import type { HostAndPort } from "../settings/host.ts";
import type { Stores } from "../store/stores.ts";
import { writeAddressFile } from "./address-file.ts";
import { bind } from "./bind.ts";
import { createCaches } from "./caches.ts";
import { keepWindow, takeUpWindow } from "./kept-window.ts";
import { warnOfOtherPrefix } from "./key-prefix.ts";
import { createInternalListener, createPublicListener } from "./listeners.ts";
import { operationServices } from "./operation-services.ts";
import { createPublicHandler } from "./public-handler.ts";
import { nameRoutes } from "./route-names.ts";
import { createWithScreen, screenNotice } from "./screen.ts";
import { seed } from "./seed.ts";
import { loadServiceSecrets } from "./service-secrets.ts";
import { createServices, type Services } from "./services.ts";
import { createSignIn } from "./sign-in.ts";
import type { ScreenNotice } from "./start-words.ts";
import { createStoreReadiness } from "./store-readiness.ts";
import { loadTlsFiles } from "./tls.ts";

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

/** What a start needs beside its settings. */
export interface AppParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  /** Opens the store that the settings name. */
  readonly openStores: () => Promise<Stores>;
  /** Called once, when both listeners are bound and before `/readyz` first answers 200. */
  readonly announce: (
    started: Pick<App, "publicAddress" | "internalAddress"> & {
      /** A team that exists; undefined if there is none. */
      readonly teamId: string | undefined;
      readonly screen: ScreenNotice;
    },
  ) => void;
  /** Called with a secret that the start read or made, before anything could log it. */
  readonly onSecret?: (secret: string) => void;
  /** Where the system says how the hosts of apps become addresses, if not in its usual files. */
  readonly nameFiles?: NameFilePaths | undefined;
  /** Where the built screen is, if there is one. */
  readonly screenFolder?: string;
}

/**
 * The composition root: settings become stores, services and listeners, in three steps. Throws
 * StartRefused, with words for the operator, if it would be unsafe to go on. Then
 * nothing stays open.
 */
export async function startApp(config: Config, parts: AppParts): Promise<App> {
  const closers: Closer[] = [];
  const start = { config, parts, closers };
  try {
    return await serve(start, await wire(start, await open(start)));
  } catch (thrown) {
    await closeInReverse(closers);
    throw storeRefused(thrown) ?? thrown;
  }
}

/** A store that opens may fail at the first write, as on a full disk. */
function storeRefused(thrown: unknown): StartRefused | undefined {
  if (!(thrown instanceof Refusal) || !storeReasons.includes(thrown.reason)) return undefined;
  return new StartRefused(`The store failed during the start. ${thrown.message}`, { cause: thrown.cause });
}

const storeReasons: readonly string[] = ["STORE_FULL", "UNAVAILABLE"];

interface Start {
  readonly config: Config;
  readonly parts: AppParts;
  /** Closes what was opened; the order is that of the opening. */
  readonly closers: Closer[];
}

type Closer = () => Promise<unknown>;

async function closeInReverse(closers: readonly Closer[]): Promise<void> {
  for (const close of closers.toReversed()) await close();
}

type Opened = Awaited<ReturnType<typeof open>>;

/** Step 1: opens what the wiring needs. */
async function open({ config, parts, closers }: Start) {
  const { clock, log } = parts;
  const files = createSecretFiles(config.dataDir, randomBytes);
  const tls = config.grpcTls && loadTlsFiles(config.grpcTls);
  const stores = await parts.openStores();
  closers.push(stores.close);
  const secrets = await loadServiceSecrets(config, files, { stores, log });
  await warnOfOtherPrefix(stores, { keyPrefix: config.keyPrefix, log });
  const unread = new UnreadAnswers(transportLimits);
  const metrics = createMetrics({ unreadAnswerBytes: () => unread.bytes });
  const caches = createCaches(stores, { clock, metrics });
  if (await stores.isEmpty()) {
    const { changeSecurityState } = caches;
    await seed(stores, { clock, changeSecurityState, withDemoTeam: config.mongodbUri === undefined });
  }
  const team = (await stores.teams.find("demo")) ?? (await stores.teams.list({ limit: 1 }))[0];
  const serviceToken = config.serviceToken ?? (await files.serviceToken());
  parts.onSecret?.(serviceToken);
  const { screenFolder } = parts;
  const screenFiles = screenFolder === undefined ? undefined : await readScreenFiles(screenFolder);
  return { tls, stores, secrets, unread, metrics, caches, serviceToken, screenFiles, teamId: team?.id };
}

type Wired = Awaited<ReturnType<typeof wire>>;

/** Step 2: services, handlers and listeners, in the order of a request. Nothing is served yet. */
async function wire({ config, parts, closers }: Start, opened: Opened) {
  const { clock, log, version } = parts;
  const { stores, secrets, unread, metrics, caches } = opened;
  const signIn = await createSignIn({ config, clock, log, stores, caches });
  const { watchAccess } = signIn;
  const { nameFiles } = parts;
  const basics = { config, clock, log, metrics, stores, caches, secrets };
  const services = createServices({ ...basics, watchAccess, nameFiles });
  const window = { limiter: services.limiter, store: stores.window, log };
  await takeUpWindow(window);
  // A start that fails from here on keeps what it took up.
  closers.push(() => keepWindow(window));
  closers.push(signIn.sessions.close, services.lastUses.close, services.repeatable.close);
  closers.push(services.runner.close);

  const storeReadiness = createStoreReadiness({ stores, log });
  const { readiness } = storeReadiness;
  const streamsEnd = new AbortController();
  const own = [...services.served, signIn.served];
  const all = [...own, ...operationServices(own, { readiness, streamsEnd: streamsEnd.signal })];
  const descriptors = all.map(({ service }) => service);
  checkPolicy(descriptors);
  const nameRoute = nameRoutes(descriptors, opened.screenFiles?.keys() ?? []);

  const requests = createRequestTracker();
  const basis = {
    ...{ config, clock, log, metrics, requests, unread, services: all },
    outcomes: createOutcomes({ log, metrics, nameRoute }),
    admit: services.admit,
    isServiceToken: createServiceTokenCheck(opened.serviceToken),
    sessions: signIn.access,
  };
  const withScreen = createWithScreen(signIn, opened.screenFiles);
  const handler = await createPublicHandler({ config, clock, version, readiness, services, withScreen });
  const publicListener = createPublicListener({ ...basis, handler });
  const internalListener = createInternalListener({ ...basis, tls: opened.tls });
  const listeners = [publicListener, internalListener];
  closers.push(async () => listeners.forEach((listener) => void listener.destroy()));
  const drainables = [...listeners, streams(services, streamsEnd), repeatableRuns(services)];
  const { screenFiles, teamId } = opened;
  return {
    ...{ signIn, services, storeReadiness, requests, drainables, screenFiles, teamId },
    ...{ publicListener, internalListener },
  };
}

/** Open streams end when the drain begins; otherwise they would hold it up to its end. */
function streams({ keyEvents }: Services, streamsEnd: AbortController): Drainable {
  const stopAccepting = () => {
    keyEvents.close();
    streamsEnd.abort();
  };
  return { stopAccepting, drained: async () => {}, destroy: () => {} };
}

/** A run with a key goes on when its caller leaves, so the drain waits for the runs themselves. */
function repeatableRuns({ repeatable }: Services): Drainable {
  return { stopAccepting: () => {}, drained: repeatable.idle, destroy: () => {} };
}

/** Step 3: binds the listeners, says where they are, and turns ready. */
async function serve({ config, parts, closers }: Start, wired: Wired): Promise<App> {
  const { signIn, services, storeReadiness, publicListener, internalListener, screenFiles, teamId } = wired;
  const publicAddress = await bind(
    publicListener,
    { host: config.host, port: config.port },
    { host: "KEYRUN_HOST", port: "KEYRUN_PORT" },
  );
  signIn.bound(publicAddress);
  const internalAddress = await bind(
    internalListener,
    { host: config.grpcHost, port: config.grpcPort },
    { host: "KEYRUN_GRPC_HOST", port: "KEYRUN_GRPC_PORT" },
  );
  closers.push(await writeAddressFile(config.dataDir, internalAddress, parts.log));
  services.lastUses.start();
  services.repeatable.start();
  signIn.sessions.start();
  parts.announce({ publicAddress, internalAddress, teamId, screen: screenNotice(signIn, screenFiles) });
  closers.push(storeReadiness.begin());

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
    abortGraceMs: bounds.abortGraceMs,
    abortReason: () => unavailable({ mayHaveRun: true }),
  });
  if (aborted > 0) parts.log.warn({ aborted }, "requests were still running at the end of the drain");
}
