import { existsSync, rmdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { requireFreePorts } from "../app/bind.ts";
import { findServiceSecrets, loadTlsFiles } from "../app/service-secrets.ts";
import { systemClock } from "../base/clock.ts";
import { innermostCause } from "../base/innermost-cause.ts";
import { readVersion } from "../base/program.ts";
import { bounds } from "../bounds.ts";
import type { InstanceFacts } from "../fleet/control-store.ts";
import {
  factsBefore,
  factsFrom,
  fleetServes,
  loneInstanceServes,
  refusalToJoin,
} from "../fleet/who-may-join.ts";
import { createServiceSecrets } from "../keys/service-secrets.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { type Config, isEmbedded, type OidcConfig, type SharedLimitConfig } from "../settings/config.ts";
import { createSecretFiles, dataFolderRefused, makeDataFolder } from "../settings/data-folder.ts";
import { writeHostAndPort } from "../settings/host.ts";
import { inspectStore } from "../store/open-stores.ts";
import { schemaNumber } from "../store/schema-number.ts";
import type { StoreInspection } from "../store/stores.ts";
import { CommandFailure } from "./failures.ts";

/**
 * The checks that `doctor` shares with a start: each calls what the start calls, and throws
 * StartRefused with the words of a refused start. None changes data. The check of an embedded store
 * may leave SQLite's own keyrun.db-wal, empty, and keyrun.db-shm, which the next start removes when
 * it ends. The check of Redis leaves a key of its own, which expires within a second.
 */
export const startChecks = { dataFolder, tls, store, fleet, redis, issuer, secrets, token, ports };

/** Tries to make the folder and to write a file in it. */
function dataFolder(config: Config): string {
  const { dataDir } = config;
  if (!isEmbedded(config) && config.serviceToken !== undefined) {
    return "the settings hold all that would be in it";
  }
  const missing = missingFolders(dataDir);
  try {
    makeDataFolder(dataDir);
    const probe = join(dataDir, "keyrun.probe");
    writeFileSync(probe, "", { mode: 0o600 });
    rmSync(probe);
  } catch (thrown) {
    throw dataFolderRefused(dataDir, "written", thrown);
  } finally {
    for (const path of missing) if (existsSync(path)) rmdirSync(path);
  }
  requirePrivate(dataDir);
  return missing.length > 0
    ? `${dataDir} is not there yet: the first start makes it`
    : `${dataDir} can be read and written`;
}

/** The folders that are not there, the deepest first. */
function missingFolders(path: string): string[] {
  if (existsSync(path) || dirname(path) === path) return [];
  return [path, ...missingFolders(dirname(path))];
}

function requirePrivate(dataDir: string): void {
  for (const name of ["secret", "service-token"]) {
    const mode = statSync(join(dataDir, name), { throwIfNoEntry: false })?.mode ?? 0;
    if ((mode & 0o077) !== 0) {
      throw new CommandFailure(`others can read ${join(dataDir, name)}: \`chmod 600\` it.`);
    }
  }
}

function tls(files: NonNullable<Config["grpcTls"]>): string {
  loadTlsFiles(files);
  return "the files can be used together";
}

/** `msMax` is how long a check of MongoDB may take. */
function store(config: Config, msMax = 5_000): Promise<StoreInspection> {
  return inspectStore(config, { msMax });
}

/** Whether this instance could serve the database beside those that serve it now. */
function fleet(config: Config, inspection: StoreInspection): string {
  const { isServed, instances } = inspection;
  const seconds = bounds.servedCheckMs / 1_000;
  if (!config.sharedLimit) throw new StartRefused(fleetServes(instances.length)(seconds));
  if (isServed) throw new StartRefused(loneInstanceServes(seconds));
  const words = refusalToJoin(ownFacts(config), factsBefore(instances));
  if (words !== undefined) throw new StartRefused(words);
  if (instances.length === 0) return "no instance serves the database";
  return `${instances.length === 1 ? "1 instance serves" : `${instances.length} instances serve`} the database`;
}

/** The settings of a fleet hold the token and the secrets: an instance without them is refused. */
function ownFacts(config: Config): InstanceFacts {
  const { serviceToken = "", secrets: own = [] } = config;
  const secretVersions = createServiceSecrets(own).versions;
  return factsFrom(config, { version: readVersion(), schema: schemaNumber, secretVersions, serviceToken });
}

/** Without an inspection nobody knows which fleet's Redis it has to be. */
async function redis(
  { redisUrl }: SharedLimitConfig,
  inspection: StoreInspection | undefined,
): Promise<string> {
  const { checkRedis } = await import("../limit/redis/open-limiter.ts");
  const { fleetId = "none yet", instances = [] } = inspection ?? {};
  const marks = instances.flatMap(({ limits }) => limits?.redisMark ?? []);
  const isMarked = await checkRedis(redisUrl, { id: fleetId, marks, clock: systemClock });
  const whose = isMarked ? `is that of this fleet (id ${fleetId})` : "no fleet uses it now";
  return `it can be written, evicts nothing, and ${whose}`;
}

/** Without an inspection nobody knows which secrets the keys need. */
/** Keyrun starts without its issuer, but then nobody can sign in. */
async function issuer(oidc: OidcConfig): Promise<string> {
  const { discoverIssuer } = await import("../sign-in/oidc-issuer.ts");
  try {
    await discoverIssuer(oidc);
  } catch (thrown) {
    throw new CommandFailure(
      `nobody can sign in: ${oidc.issuer} does not answer as an OpenID Connect issuer of this name: ${innermostCause(thrown)}.`,
    );
  }
  return `${oidc.issuer} answers`;
}

async function secrets(config: Config, inspection: StoreInspection | undefined): Promise<string> {
  const needed = inspection?.secretVersions ?? [];
  const found = await findServiceSecrets(config, filesOf(config), needed);
  if (!inspection) {
    return `${found ? `version ${found.versions.join(", ")}` : "there is none"}; which one keys need was not seen`;
  }
  if (!found) return "there is none yet: the first start makes one";
  const used = needed.length === 0 ? "no key needs one yet" : `keys need ${needed.join(", ")}`;
  return `version ${found.versions.join(", ")}; ${used}`;
}

async function token(config: Config): Promise<string> {
  if (config.serviceToken !== undefined) return "KEYRUN_SERVICE_TOKEN is set";
  const token = await filesOf(config).findServiceToken();
  return token === undefined ? "there is none yet: the first start makes one" : "the file can be read";
}

function filesOf({ dataDir }: Config) {
  return createSecretFiles(dataDir, () => {
    throw new Error("doctor makes no secret");
  });
}

async function ports(config: Config): Promise<string> {
  await requireFreePorts(config);
  const addresses = [
    { host: config.host, port: config.port },
    { host: config.grpcHost, port: config.grpcPort },
  ];
  return `${addresses.map(writeHostAndPort).join(" and ")} are free`;
}
