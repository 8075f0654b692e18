import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { HandlerContext } from "@connectrpc/connect";
import { Health } from "#gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "#gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { bind, hostAndPort } from "./app/bind.ts";
import { createCaches } from "./app/caches.ts";
import { warnOfOtherPrefix } from "./app/key-prefix.ts";
import { createInternalListener, createPublicListener } from "./app/listeners.ts";
import { createPublicDoor } from "./app/public-door.ts";
import { createWithScreen, screenNotice } from "./app/screen.ts";
import { loadServiceSecrets } from "./app/service-secrets.ts";
import { createServices, type Services } from "./app/services.ts";
import { createSignIn } from "./app/sign-in.ts";
import { checkPolicy } from "./auth/policy.ts";
import { createServiceTokenCheck } from "./auth/service-token.ts";
import type { Clock } from "./clock.ts";
import { bounds, type Config } from "./config.ts";
import { readScreenFiles } from "./edge/screen-files.ts";
import { unavailable } from "./error.ts";
import type { Log } from "./log.ts";
import { createMetrics } from "./metrics.ts";
import { createHealth } from "./rpc/health.ts";
import { createReflection } from "./rpc/reflection.ts";
import { type ServedService, served } from "./rpc/served.ts";
import { untilEnded } from "./rpc/until-ended.ts";
import { createSecretFiles, writePrivateFile } from "./secret-files.ts";
import { seed } from "./seed.ts";
import { type Drainable, drain } from "./server/drain.ts";
import type { BoundAddress } from "./server/listener.ts";
import { createReadiness, type Readiness } from "./server/readiness.ts";
import { createRequestTracker } from "./server/request-tracker.ts";
import type { ScreenNotice } from "./start-words.ts";
import type { Stores } from "./store/stores.ts";

/** Keyrun, running. */
export interface App {
  readonly publicAddress: BoundAddress;
  readonly internalAddress: BoundAddress;
  /** Drains and stops: no request that ends within the drain fails. Repeating it is the same one. */
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
    started: Pick<App, "publicAddress" | "internalAddress"> & { readonly screen: ScreenNotice },
  ) => void;
  /** Told of a secret that the start read or made, before anything could log it. */
  readonly onSecret?: (secret: string) => void;
  /** Where the built screen is, if there is one. */
  readonly screenFolder?: string;
}

/**
 * The composition root: settings become stores, services and listeners, in the order of a request. Throws
 * StartRefused, with words for the operator, where it would be unsafe to go on; then nothing is left open.
 */
export async function startApp(config: Config, parts: AppParts): Promise<App> {
  const closers: Closer[] = [];
  try {
    return await start(config, parts, closers);
  } catch (thrown) {
    await closeInReverse(closers);
    throw thrown;
  }
}

type Closer = () => Promise<unknown>;

async function closeInReverse(closers: readonly Closer[]): Promise<void> {
  for (const close of closers.toReversed()) await close();
}

async function start(config: Config, parts: AppParts, closers: Closer[]): Promise<App> {
  const { clock, log, version } = parts;
  const files = createSecretFiles(config.dataDir, randomBytes);
  const stores = await parts.openStores();
  closers.push(stores.close);
  const secrets = await loadServiceSecrets(config, files, stores);
  await warnOfOtherPrefix(stores, { keyPrefix: config.keyPrefix, log });
  if (await stores.isEmpty()) await seed(stores, { clock, withDemoTeam: config.mongodbUri === undefined });

  const metrics = createMetrics();
  const readiness = createReadiness(stores.guard.holds);
  const streamsEnd = new AbortController();
  const requests = createRequestTracker();
  const caches = createCaches(stores, { clock, metrics });
  const signIn = createSignIn({ config, clock, log, stores, caches });
  const { watchAccess } = signIn;
  const services = createServices({
    config,
    clock,
    log,
    metrics,
    stores,
    caches,
    secrets,
    watchAccess,
  });
  closers.push(signIn.sessions.close, services.lastUses.close, services.runner.close);
  services.lastUses.start();

  const serviceToken = config.serviceToken ?? (await files.serviceToken());
  parts.onSecret?.(serviceToken);
  const isServiceToken = createServiceTokenCheck(serviceToken);
  const { admit } = services;
  const { access: sessions } = signIn;
  const basis = { config, clock, log, metrics, requests, admit, isServiceToken, sessions };
  const own = [...services.served, signIn.served];
  const all = [...own, ...operationServices(own, { readiness, streamsEnd: streamsEnd.signal })];
  checkPolicy(all.map(({ service }) => service));
  const screenFiles =
    parts.screenFolder === undefined ? undefined : await readScreenFiles(parts.screenFolder);
  const withScreen = createWithScreen(signIn, screenFiles);
  const door = createPublicDoor({ config, clock, version, readiness, services, withScreen });
  const publicListener = createPublicListener({ ...basis, services: all, door });
  const internalListener = await createInternalListener({ ...basis, services: all });
  const listeners = [publicListener, internalListener];
  closers.push(async () => listeners.forEach((listener) => void listener.destroy()));

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
  const addressFile = join(config.dataDir, "grpc-address");
  await writePrivateFile(addressFile, `${hostAndPort(internalAddress)}\n`);
  closers.push(() => rm(addressFile, { force: true }));
  signIn.sessions.start();
  parts.announce({ publicAddress, internalAddress, screen: screenNotice(signIn, screenFiles) });
  readiness.set(true);
  const looking = setInterval(readiness.look, bounds.readinessLookMs).unref();
  closers.push(async () => clearInterval(looking));

  let closing: Promise<void> | undefined;
  const close = async () => {
    const { aborted } = await drain({
      markUnready: () => readiness.set(false, "draining"),
      doors: [...listeners, streams(services, streamsEnd)],
      requests,
      delayMs: config.drainDelayMs,
      msMax: config.drainMsMax,
      abortGraceMs: bounds.abortGraceMs,
      abortReason: () => unavailable({ mayHaveRun: true }),
    });
    if (aborted > 0) log.warn({ aborted }, "requests were still running at the end of the drain");
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

/** A stream that nobody ends would hold the drain up to its end. */
function streams({ keyEvents }: Services, streamsEnd: AbortController): Drainable {
  const stopAccepting = () => {
    keyEvents.close();
    streamsEnd.abort();
  };
  return { stopAccepting, drained: async () => {}, destroy: () => {} };
}

function operationServices(
  ownServices: readonly ServedService[],
  { readiness, streamsEnd }: { readiness: Readiness; streamsEnd: AbortSignal },
) {
  const own = ownServices.map(({ service }) => service);
  const reflection = createReflection([...own, Health, ServerReflection, ServerReflectionV1Alpha]);
  const serviceNames = own.map(({ typeName }) => typeName);
  const health = createHealth({ serviceNames, readiness, watchersMax: bounds.healthWatchersMax });
  const ends =
    <Request, Answer>(open: (request: Request, context: HandlerContext) => AsyncIterable<Answer>) =>
    (request: Request, context: HandlerContext) =>
      untilEnded(open(request, context), streamsEnd);
  return [
    served(Health, { ...health, watch: ends(health.watch) }),
    served(ServerReflection, { serverReflectionInfo: ends(reflection.v1.serverReflectionInfo) }),
    served(ServerReflectionV1Alpha, { serverReflectionInfo: ends(reflection.v1alpha.serverReflectionInfo) }),
  ];
}
