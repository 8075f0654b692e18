import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { type CreateKeyRequest, KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import type { QuotaLimitSchema } from "#gen/keyrun/v1/quota_pb.ts";
import type { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import type { Load } from "#src/admission/admission.ts";
import { createInstanceTokens } from "#src/auth/instance-tokens.ts";
import { type Clock, systemClock } from "#src/base/clock.ts";
import { createKeyForm } from "#src/keys/key-value.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createLog } from "#src/log/log.ts";
import { createRedaction } from "#src/log/redaction.ts";
import type { NameFilePaths } from "#src/run/resolve-host.ts";
import type { Config } from "#src/settings/config.ts";
import { writeHostAndPort } from "#src/settings/host.ts";
import { readSettings } from "#src/settings/read-settings.ts";
import { openStores } from "#src/store/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { asksAgain, eventually, whileBusy } from "./eventually.ts";
import { openMongoForTest } from "./open-mongo.ts";
import { createTempFolders } from "./temp-folders.ts";

/**
 * Loaded by a name that no tool follows. Else `--changed` would run each test that starts a whole
 * Keyrun, which is most of the time of `npm test`, for any file of `src/`.
 */
const wholeProduct = "#src/app/start.ts";

export interface IssuedKey {
  readonly id: string;
  readonly teamId: string;
  readonly value: string;
}

/** What a key is restricted to. */
export type Restrictions = Partial<Pick<CreateKeyRequest, "appIds" | "requestsPerMinute">> & {
  quota?: MessageInitShape<typeof QuotaLimitSchema>;
};

export interface IssuedServiceToken {
  readonly id: string;
  readonly name: string;
  readonly value: string;
}

export interface KeyrunOptions {
  /**
   * Added to the harness's own settings: free ports, a folder and a secret. Undefined takes one
   * away.
   */
  readonly settings?: Readonly<Record<string, string | undefined>>;
  readonly clock?: Clock;
  /** Which requests are shed. By default none: a test makes the event loop late by its own work. */
  readonly load?: Load;
  /** Wraps the real store, so that a test can watch calls or make them fail. */
  readonly onStores?: (stores: Stores) => Stores;
  /** Files for the look-up of hosts, instead of the system's. */
  readonly nameFiles?: NameFilePaths;
  /** The folder of the built screen, for tests that use it. */
  readonly screenFolder?: string;
  /** What calls the command line, for the screen. */
  readonly command?: string;
  /** `debug` if absent. */
  readonly logLevel?: "debug" | "trace";
  /** Its own clients ask again where it answers that it can't do it now. */
  readonly isPatient?: boolean;
}

export type Keyrun = Awaited<ReturnType<typeof startKeyrun>>;

/** A whole Keyrun in this process, on free loopback ports and a folder that `close` removes. */
export async function startKeyrun(options: KeyrunOptions = {}) {
  const { settings, clock = systemClock, onStores, nameFiles, screenFolder, command } = options;
  const { logLevel: level = "debug", load = { sheds: () => false } } = options;
  const quietEvents = { onWaiting: () => {}, onRenewalFailed: () => {}, onLost: () => {} };

  const folders = createTempFolders();
  const secret = randomBytes(32);
  const read = readSettings(
    {
      KEYRUN_PORT: "0",
      KEYRUN_GRPC_PORT: "0",
      KEYRUN_DATA_DIR: folders.create(),
      KEYRUN_SECRET: secret.toString("base64url"),
      ...settings,
    },
    (path) => readFileSync(path, "utf8"),
  );
  if ("problems" in read) throw new Error(read.problems.join("\n"));
  const config = read.ok;
  const lines: string[] = [];
  const accessLines: string[] = [];
  const log = createLog({ level, destination: { write: (line) => void lines.push(line) } });
  let serviceToken = "";
  const hidden: string[] = [];
  const { startApp }: typeof import("#src/app/start.ts") = await import(wholeProduct);
  const app = await startApp(config, {
    clock,
    load: { ...load, watch: () => async () => {} },
    log,
    version: "0.0.0-test",
    nodeVersion: process.versions.node,
    openStores: async () => {
      const stores = await openStoresOf(config, { clock, events: quietEvents });
      return onStores?.(stores) ?? stores;
    },
    writeAccess: config.accessLog ? (line) => void accessLines.push(line.trimEnd()) : undefined,
    redact: createRedaction(config.keyPrefix, hidden),
    announce: () => {},
    onSecret: (secret) => {
      serviceToken = secret;
      hidden.push(secret);
    },
    nameFiles,
    ...(screenFolder === undefined ? {} : { screenFolder }),
    ...(command === undefined ? {} : { command }),
  });
  const publicUrl = `http://${writeHostAndPort(app.publicAddress)}`;
  const internalUrl = `http://${writeHostAndPort(app.internalAddress)}`;
  const management = manage(internalUrl, serviceToken, { isPatient: options.isPatient ?? false });
  const secrets = createServiceSecrets(config.secrets ?? [secret]);
  const form = createKeyForm(config.keyPrefix, secrets);
  return {
    app,
    publicUrl,
    internalUrl,
    serviceToken,
    config,
    logLines: lines as readonly string[],
    /** The access log, if the settings turn it on. */
    accessLines: accessLines as readonly string[],
    ...management,
    /** What another instance with the same secrets shows. */
    instanceToken: createInstanceTokens(secrets).own,
    /** A key value in the form of this Keyrun that is not in its store. */
    unknownKey: () => form.mint(randomBytes).value,
    /** The value of a series in `/metrics`, by its name with labels; NaN if there is none. */
    metric: (series: string) => readMetric(internalUrl, serviceToken, series),
    async close() {
      management.disconnect();
      await app.close();
      folders.remove();
    },
  };
}

/**
 * The stores that the settings name. MongoDB may take longer than Keyrun waits for it elsewhere, as
 * a busy machine may stop it for a second. So the lease of an instance alone is long, too, and by
 * the real clock: a test that sets a clock asks what stands above the store. An instance of a fleet
 * waits no longer than its lease lets it, and its tests ask again.
 */
function openStoresOf(config: Config, { clock, events }: Parameters<typeof openStores>[1]): Promise<Stores> {
  return config.mongodbUri === undefined || config.sharedLimit !== undefined
    ? openStores(config, { clock, events })
    : openMongoForTest({ uri: config.mongodbUri, events });
}

/**
 * Clients of the internal listener, with which tests prepare teams, keys and apps. With `isPatient`
 * they ask again where Keyrun answers that it can't do it now.
 */
export function manage(
  internalUrl: string,
  serviceToken: string,
  { isPatient = false }: { isPatient?: boolean } = {},
) {
  const sessionManager = new Http2SessionManager(internalUrl);
  const transport = createGrpcTransport({
    baseUrl: internalUrl,
    sessionManager,
    interceptors: [...(isPatient ? [asksAgain] : []), withAuthorization(`Bearer ${serviceToken}`)],
  });
  const keys = createClient(KeyService, transport);
  const teams = createClient(TeamService, transport);
  const apps = createClient(AppService, transport);
  const sessions = createClient(SessionService, transport);
  const serviceTokens = createClient(ServiceTokenService, transport);
  const audit = createClient(AuditService, transport);
  return {
    keys,
    teams,
    apps,
    sessions,
    serviceTokens,
    /** A new service token, with a name that no other test uses. */
    newServiceToken: (role: ServiceRole, teamIds: string[] = []): Promise<IssuedServiceToken> =>
      eventually(async () => {
        tokenCount += 1;
        const name = `service-${tokenCount}`;
        const { serviceToken, value } = await serviceTokens.createServiceToken({ name, role, teamIds });
        return { id: serviceToken?.id ?? "", name, value };
      }, whileBusy),
    audit,
    newTeam: (plan: Plan = Plan.FREE) => eventually(() => newTeam(teams, plan), whileBusy),
    newKey: (teamId: string, restrictions: Restrictions = {}): Promise<IssuedKey> =>
      eventually(async () => {
        const { key, value } = await keys.createKey({ teamId, ...restrictions });
        return { id: key?.id ?? "", teamId, value };
      }, whileBusy),
    disconnect: () => sessionManager.abort(),
  };
}

let teamCount = 0;
let tokenCount = 0;

/** A new team with an id that no other test uses. */
async function newTeam(teams: Client<typeof TeamService>, plan: Plan): Promise<string> {
  teamCount += 1;
  const id = `team-${teamCount}`;
  await teams.createTeam({ team: { id, plan } });
  return id;
}

/** Sends this `Authorization` header with every call. */
export function withAuthorization(value: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", value);
    return next(request);
  };
}

/** Ways to call with a service token. */
export const tokenTransports: Readonly<Record<string, (baseUrl: string, token: string) => Transport>> = {
  gRPC: (baseUrl, token) =>
    createGrpcTransport({ baseUrl, interceptors: [withAuthorization(`Bearer ${token}`)] }),
  Connect: (baseUrl, token) =>
    createConnectTransport({
      ...{ baseUrl, httpVersion: "1.1" },
      interceptors: [withAuthorization(`Bearer ${token}`)],
    }),
};

/** The value of a series in `/metrics`, by its name with labels; NaN if there is none. */
export async function readMetric(internalUrl: string, serviceToken: string, series: string): Promise<number> {
  const answer = await fetch(`${internalUrl}/metrics`, {
    headers: { authorization: `Bearer ${serviceToken}` },
  });
  const line = (await answer.text()).split("\n").find((each) => each.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? Number.NaN);
}
