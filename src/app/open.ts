/**
 * Step 1 of a start: opens the store, the secrets, the caches and the fleet, and writes what a new
 * store begins with.
 */

import { randomBytes, randomUUID } from "node:crypto";
import { createAuditLog, createEventIds } from "../audit/audit-log.ts";
import type { Clock } from "../base/clock.ts";
import { programName } from "../base/program.ts";
import { bounds } from "../bounds.ts";
import { grantOf } from "../fleet/security-state.ts";
import type { WriteLine } from "../http/access-log.ts";
import { readScreenFiles } from "../http/screen.ts";
import { ByteBudget } from "../limit/byte-budget.ts";
import { LoadShedder } from "../limit/load-shedder.ts";
import type { Log } from "../log/log.ts";
import type { Redact } from "../log/redaction.ts";
import { createMetrics } from "../metrics/metrics.ts";
import type { NameFilePaths } from "../run/resolve-host.ts";
import { transportLimits } from "../server/transport.ts";
import { UnreadAnswers } from "../server/unread-answers.ts";
import { type Config, isEmbedded } from "../settings/config.ts";
import { createSecretFiles } from "../settings/data-folder.ts";
import type { HostAndPort } from "../settings/host.ts";
import { localOwner } from "../sign-in/local-links.ts";
import { signInMode } from "../sign-in/screen-address.ts";
import type { Stores } from "../store/stores.ts";
import { createTraces } from "../traces/traces.ts";
import { createCaches } from "./caches.ts";
import { FleetInstance } from "./fleet.ts";
import { createMembership, type Membership } from "./membership.ts";
import { meterStores } from "./meters.ts";
import { openTls } from "./renewed-tls.ts";
import { loadServiceSecrets, warnOfOtherPrefix } from "./service-secrets.ts";
import { openSharedLimit } from "./shared-limit.ts";
import type { ScreenNotice } from "./start-words.ts";

/** What a start needs beside its settings. */
export interface AppParts {
  readonly clock: Clock;
  /**
   * Says which requests are shed, if not the delay of the event loop. A test in the same process
   * makes the loop late by its own work, which is no load of Keyrun's.
   */
  readonly load?: Pick<LoadShedder, "sheds" | "watch">;
  readonly log: Log;
  readonly version: string;
  /** The version of Node. */
  readonly nodeVersion: string;
  /** Opens the store that the settings name. */
  readonly openStores: () => Promise<Stores>;
  /** Called once, when both listeners are bound and before `/readyz` first answers 200. */
  readonly announce: (started: {
    readonly publicAddress: HostAndPort;
    readonly internalAddress: HostAndPort;
    /** A team that exists; undefined if there is none. */
    readonly teamId: string | undefined;
    readonly screen: ScreenNotice;
  }) => void;
  /** Ends a start that waits for others to leave. */
  readonly signal?: AbortSignal;
  /** Called once if the fleet took this instance out and it may not join again: it should end. */
  readonly onRefused?: (words: string) => void;
  /** Called with a secret that the start read or made, before anything could log it. */
  readonly onSecret?: (secret: string) => void;
  /** Where the system says how the hosts of apps become addresses, if not in its usual files. */
  readonly nameFiles?: NameFilePaths | undefined;
  /** Takes the lines of the access log; undefined: there is none. */
  readonly writeAccess?: WriteLine | undefined;
  /** The bytes that runs may reserve where no setting says it. */
  readonly runBytesMax?: number;
  /** Cuts secrets from what a caller may have written, as the log does. */
  readonly redact?: Redact;
  /** Where the built screen is, if there is one. */
  readonly screenFolder?: string;
  /** How to call the command line from the folder that Keyrun was started in. */
  readonly command?: string;
}

/** A start under way. */
export interface Start {
  readonly config: Config;
  readonly parts: AppParts;
  /** Closes what was opened; the order is that of the opening. */
  readonly closers: Closer[];
}

export type Closer = () => Promise<unknown>;

export type Opened = Awaited<ReturnType<typeof open>>;

/** Step 1: opens what the wiring needs. */
export async function open(start: Start) {
  const ground = await openGround(start);
  const records = await openRecords(start, ground);
  const fleet = await openFleet(start, { ...ground, ...records });
  const teamId = await prepareTeam(start, { ...ground, ...fleet });
  const screen = await openScreen(start);
  return { ...ground, ...records, ...fleet, teamId, ...screen };
}

type Ground = Awaited<ReturnType<typeof openGround>>;
type Records = Awaited<ReturnType<typeof openRecords>>;
type OpenedFleet = Awaited<ReturnType<typeof openFleet>>;

/** The store, and what stands on nothing else. */
async function openGround({ config, parts, closers }: Start) {
  const { clock, log } = parts;
  const tls = config.grpcTls && openTls(config.grpcTls, { log });
  if (tls) closers.push(tls.stop);
  const traces = createTraces(parts.version);
  if (traces) closers.push(traces.close);
  const opened = await parts.openStores();
  closers.push(opened.close);
  const metrics = createMetrics({ version: parts.version, node: parts.nodeVersion });
  const metered = meterStores(opened, { clock, metrics });
  const stores = traces?.stores(metered, isEmbedded(config) ? "sqlite" : "mongodb") ?? metered;
  return {
    tls,
    traces,
    metrics,
    stores,
    unread: new UnreadAnswers(transportLimits),
    bytes: new ByteBudget(config.runBytesMax ?? parts.runBytesMax ?? bounds.runBytesMax),
    load: parts.load ?? createLoad({ clock, log }),
  };
}

/** What is read of the store from the start on, and what is written beside each change of it. */
async function openRecords({ config, parts, closers }: Start, { stores, metrics }: Ground) {
  const { clock, log } = parts;
  const audit = createAuditLog({
    clock,
    log,
    store: stores.audit,
    keptDays: config.auditDays,
    newId: createEventIds(randomBytes),
  });
  // After all that may change something, and before the store.
  closers.push(audit.close);
  const files = createSecretFiles(config.dataDir, randomBytes);
  const secrets = await loadServiceSecrets(config, files, { stores, log });
  await warnOfOtherPrefix(stores, { keyPrefix: config.keyPrefix, log });
  const serviceToken = config.serviceToken ?? (await files.serviceToken());
  parts.onSecret?.(serviceToken);
  return { audit, secrets, serviceToken, caches: createCaches(stores, { clock, metrics }) };
}

/**
 * The other instances on the same store, if there may be others, and the limit shared with them.
 */
async function openFleet({ config, parts, closers }: Start, opened: Ground & Records) {
  const { clock, log, onRefused, signal, version } = parts;
  const { stores, secrets, serviceToken, metrics, caches, tls, traces } = opened;
  const instance =
    stores.fleet &&
    new FleetInstance({
      config,
      clock,
      log,
      metrics,
      store: stores.fleet,
      secrets,
      serviceToken,
      version,
      tls,
      newId: randomUUID,
      newRedisMark: () => randomBytes(4).toString("hex"),
      onRefused,
      signal,
    });
  // Before this instance joins: one that can't serve must not count among the others.
  const sharedLimit = await openSharedLimit({
    config,
    instance,
    clock,
    log,
    metrics,
    spans: traces?.limit,
  });
  if (sharedLimit) closers.push(async () => sharedLimit.close());
  const membership = await createMembership({ config, log, stores, caches, instance, limit: sharedLimit });
  if (membership.fleet) closers.push(membership.fleet.leave);
  return { sharedLimit, membership };
}

/** Writes what a new store begins with. Returns a team that exists; undefined if there is none. */
async function prepareTeam(
  { config, parts }: Start,
  { stores, membership }: Ground & OpenedFleet,
): Promise<string | undefined> {
  const { clock } = parts;
  const { changeSecurityState } = membership;
  if (await stores.isEmpty()) {
    await seed(stores, { clock, changeSecurityState, withDemoTeam: isEmbedded(config) });
  }
  const team = (await stores.teams.find("demo")) ?? (await stores.teams.list({ limit: 1 }))[0];
  return team?.id;
}

async function openScreen({ config, parts }: Start) {
  const { screenFolder, command } = parts;
  if (screenFolder === undefined) return { screenFiles: undefined, isScreenMissing: false };
  const screenFiles = await readScreenFiles(screenFolder, screenCommand(config, command));
  return { screenFiles, isScreenMissing: screenFiles === undefined };
}

/**
 * How the screen calls the command line. Those who sign in at an issuer work on other machines, and
 * learn no folder of this one.
 */
function screenCommand(config: Config, command = programName): string {
  if (signInMode(config) === "local") return command;
  return command.endsWith(programName) ? programName : "keyrun";
}

/**
 * Writes what a new store starts with, so that the first run is one command away: the app `echo`.
 * In the embedded store it also writes the team `demo`, with the owner as its member; one-time
 * links sign the owner in. Another instance that starts at the same time may seed too: records that
 * exist stay as they are.
 */
async function seed(
  stores: Pick<Stores, "apps" | "teams" | "members" | "preview">,
  parts: { clock: Clock; changeSecurityState: Membership["changeSecurityState"]; withDemoTeam: boolean },
): Promise<void> {
  const { clock, changeSecurityState, withDemoTeam } = parts;
  const createTimeMs = clock.unixMs();
  if (withDemoTeam) {
    const team = { id: "demo", displayName: "Demo", plan: "free", createTimeMs } as const;
    await changeSecurityState("team", () => stores.teams.insert(team), grantOf);
    const { email } = localOwner;
    await stores.members.add({ teamId: "demo", email, createTimeMs });
    await changeSecurityState("preview", () => stores.preview.set(email, true), { id: email });
  }
  const echo = {
    id: "echo",
    displayName: "Echo",
    backend: { kind: "echo" },
    timeoutMs: bounds.appTimeoutMsDefault,
    streamTimeoutMs: bounds.appStreamTimeoutMsDefault,
    backgroundTimeoutMs: bounds.appBackgroundTimeoutMsDefault,
    teamIds: [],
    createTimeMs,
  } as const;
  await changeSecurityState("app", () => stores.apps.insert(echo), grantOf);
}

/** Sheds load where the event loop is late, and says so in the log. */
function createLoad({ clock, log }: { readonly clock: Clock; readonly log: Log }): LoadShedder {
  return new LoadShedder(clock, ({ isShedding, refused }) => {
    if (isShedding) log.warn("the event loop is late: runs are refused");
    else log.warn({ refused }, "the event loop is on time again: no more runs are refused for it");
  });
}
