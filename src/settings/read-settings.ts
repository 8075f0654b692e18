/** From the environment to a frozen Config, or to everything that is wrong with it at once. */

import type { z } from "zod";
import type { Config } from "./config.ts";
import { isLoopbackHost } from "./host.ts";
import { environment, isForeignName, settingFacts } from "./known.ts";

/**
 * A frozen Config, or every problem, one sentence each. `rest` is for those who read the other
 * settings too: in its config, the settings that `unread` names have their defaults.
 */
export type SettingsOutcome =
  | { readonly ok: Config }
  | {
      readonly problems: readonly string[];
      readonly rest: { readonly config: Config; readonly unread: ReadonlySet<string> };
    };

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads every `KEYRUN_*` name of `env`. `readFile` reads the file of a `*_FILE` setting, or throws.
 * Reports all problems at once. No problem contains the value of a setting or a path.
 */
export function readSettings(env: Environment, readFile: (path: string) => string): SettingsOutcome {
  const given = Object.keys(env).filter((name) => name.startsWith("KEYRUN_") && env[name] !== undefined);
  const problems = given.filter((name) => !isKnownName(name) && !isForeignName(name)).map(unknownProblem);
  const texts: Record<string, string> = {};
  const unread = new Set<string>();
  for (const name of settingNames) {
    const found = readText(name, env, readFile);
    if (typeof found === "string") texts[name] = found;
    else if (found !== undefined) {
      unread.add(name);
      problems.push(found.problem);
    }
  }
  const parsed = environment.safeParse(texts);
  for (const issue of parsed.error?.issues ?? []) {
    unread.add(String(issue.path[0]));
    problems.push(formProblem(issue.path[0], issue.message));
  }
  // A secret whose file can't be read counts as set here: that file is reported already.
  problems.push(
    ...contradictions((name) => texts[name] ?? env[name] ?? env[`${name}_FILE`] ?? defaults.get(name)),
  );
  if (parsed.success && problems.length === 0) return { ok: configFrom(parsed.data) };
  const read = Object.entries(texts).filter(([name]) => !unread.has(name));
  const config = configFrom(environment.parse(Object.fromEntries(read)));
  return { problems, rest: { config, unread } };
}

type Parsed = z.output<typeof environment>;

// Object.keys loses the type of the names. The shape is a literal, so it has no other names.
const settingNames = Object.keys(environment.shape) as (keyof Parsed)[];
const secretNames = settingNames.filter((name) => factsOf(name).secret);
const defaults = new Map(settingNames.map((name) => [String(name), factsOf(name).byDefault]));
const knownNames = [...settingNames, ...secretNames.map((name) => `${name}_FILE`)];

function isKnownName(name: string): boolean {
  return knownNames.includes(name);
}

function factsOf(name: keyof Parsed) {
  return settingFacts.get(environment.shape[name]) ?? { does: "" };
}

function unknownProblem(name: string): string {
  const near = nearestName(name, knownNames);
  const advice = near === undefined ? ".env.example lists all there are." : `did you mean ${near}?`;
  return `${name} is not a setting of Keyrun: ${advice}`;
}

/** The setting's text or that of its file; undefined if both are absent; or the problem. */
function readText(
  name: keyof Parsed,
  env: Environment,
  readFile: (path: string) => string,
): string | undefined | { problem: string } {
  const fileName = `${name}_FILE`;
  const path = factsOf(name).secret ? env[fileName] : undefined;
  const text = env[name];
  if (text !== undefined && path !== undefined) {
    return { problem: `${name} and ${fileName} are both set: keep one of them.` };
  }
  // An empty value is most often a secret that failed to arrive. "Absent" would hide that.
  if (text === "") return { problem: `${name} is empty: give it a value, or remove it.` };
  if (path === undefined) return text;
  try {
    const content = readFile(path).replace(/\r?\n$/, "");
    return content === ""
      ? { problem: `${fileName} names an empty file: write the value into it.` }
      : content;
  } catch (cause) {
    const why = cause instanceof Error && "code" in cause ? ` (${cause.code})` : "";
    return { problem: `${fileName} must be the path of a readable file${why}.` };
  }
}

function formProblem(path: PropertyKey | undefined, message: string): string {
  const name = settingNames.find((candidate) => candidate === path);
  const example = name === undefined ? undefined : factsOf(name).example;
  return `${String(path)} ${message}${example === undefined ? "" : `, such as ${example}`}.`;
}

function configFrom(settings: Parsed): Config {
  return Object.freeze({
    host: settings.KEYRUN_HOST,
    port: settings.KEYRUN_PORT,
    grpcHost: settings.KEYRUN_GRPC_HOST,
    grpcPort: settings.KEYRUN_GRPC_PORT,
    grpcTls: tlsFrom(settings),
    advertiseAddress: settings.KEYRUN_ADVERTISE_ADDRESS,
    dataDir: settings.KEYRUN_DATA_DIR,
    mongodbUri: settings.KEYRUN_MONGODB_URI,
    sharedLimit: sharedLimitFrom(settings),
    secrets: settings.KEYRUN_SECRET,
    serviceToken: settings.KEYRUN_SERVICE_TOKEN,
    planLimits: settings.KEYRUN_PLAN_LIMITS,
    planQuotas: settings.KEYRUN_PLAN_QUOTAS ?? Object.freeze({}),
    keyPrefix: settings.KEYRUN_KEY_PREFIX,
    keyHeader: settings.KEYRUN_KEY_HEADER,
    keysPerTeamMax: settings.KEYRUN_KEYS_PER_TEAM_MAX,
    bodyBytesMax: settings.KEYRUN_BODY_BYTES_MAX,
    appOutputBytesMax: settings.KEYRUN_APP_OUTPUT_BYTES_MAX,
    runBytesMax: settings.KEYRUN_RUN_BYTES_MAX,
    appRunsMax: settings.KEYRUN_APP_RUNS_MAX,
    idempotencyHours: settings.KEYRUN_IDEMPOTENCY_HOURS,
    appStreamsMax: settings.KEYRUN_APP_STREAMS_MAX,
    appBackgroundRunsMax: settings.KEYRUN_APP_BACKGROUND_RUNS_MAX,
    connectionsMax: settings.KEYRUN_CONNECTIONS_MAX,
    // Behind a proxy all connections have the proxy's address: a bound would cut off every caller.
    connectionsPerAddressMax:
      settings.KEYRUN_TRUST_PROXY > 0 ? undefined : settings.KEYRUN_CONNECTIONS_PER_ADDRESS_MAX,
    keepAliveMs: settings.KEYRUN_KEEP_ALIVE_S * 1_000,
    trustProxyHops: settings.KEYRUN_TRUST_PROXY,
    publicUrl: settings.KEYRUN_PUBLIC_URL,
    oidc: oidcFrom(settings),
    drainDelayMs: settings.KEYRUN_DRAIN_DELAY_MS,
    drainMsMax: settings.KEYRUN_DRAIN_MS_MAX,
    auditDays: settings.KEYRUN_AUDIT_DAYS,
    accessLog: settings.KEYRUN_ACCESS_LOG,
    logLevel: settings.KEYRUN_LOG_LEVEL,
  });
}

function sharedLimitFrom(settings: Parsed): Config["sharedLimit"] {
  const redisUrl = settings.KEYRUN_REDIS_URL;
  if (redisUrl === undefined) return undefined;
  return Object.freeze({ redisUrl, fallback: settings.KEYRUN_LIMIT_FALLBACK });
}

function oidcFrom(settings: Parsed): Config["oidc"] {
  const issuer = settings.KEYRUN_OIDC_ISSUER;
  const clientId = settings.KEYRUN_OIDC_CLIENT_ID;
  const clientSecret = settings.KEYRUN_OIDC_CLIENT_SECRET;
  if (issuer === undefined || clientId === undefined || clientSecret === undefined) return undefined;
  const clientAuthMethod = settings.KEYRUN_OIDC_CLIENT_AUTH_METHOD;
  const assumeEmailVerified = settings.KEYRUN_OIDC_ASSUME_EMAIL_VERIFIED;
  return Object.freeze({ issuer, clientId, clientSecret, clientAuthMethod, assumeEmailVerified });
}

function tlsFrom(settings: Parsed): Config["grpcTls"] {
  const certFile = settings.KEYRUN_GRPC_TLS_CERT_FILE;
  const keyFile = settings.KEYRUN_GRPC_TLS_KEY_FILE;
  const clientCaFile = settings.KEYRUN_GRPC_TLS_CLIENT_CA_FILE;
  if (certFile === undefined || keyFile === undefined || clientCaFile === undefined) return undefined;
  return Object.freeze({ certFile, keyFile, clientCaFile });
}

/** A setting's text, else its default, else undefined. */
type TextOf = (name: string) => string | undefined;

/**
 * Problems between settings that may each be valid alone, one sentence each. They are checked in
 * the texts, and not in parsed values, so that they are told even if another setting can't be
 * parsed.
 */
function contradictions(textOf: TextOf): string[] {
  return [
    ...tlsProblems(textOf),
    ...signInProblems(textOf),
    ...storeProblems(textOf),
    ...sharedLimitProblems(textOf),
    ...portProblems(textOf),
    ...bytesProblems(textOf),
  ];
}

const tlsNames = [
  "KEYRUN_GRPC_TLS_CERT_FILE",
  "KEYRUN_GRPC_TLS_KEY_FILE",
  "KEYRUN_GRPC_TLS_CLIENT_CA_FILE",
] as const;

function tlsProblems(textOf: TextOf): string[] {
  const problems: string[] = [];
  const missing = tlsNames.filter((name) => textOf(name) === undefined);
  const plaintext = textOf("KEYRUN_GRPC_PLAINTEXT") === "true";
  if (missing.length > 0 && missing.length < tlsNames.length) {
    problems.push(`${missing.join(" and ")} must be set too: TLS takes all three files, or none.`);
  }
  if (missing.length < tlsNames.length && plaintext) {
    problems.push("KEYRUN_GRPC_PLAINTEXT must be false, or the TLS files removed: it can't be both.");
  }
  const host = textOf("KEYRUN_GRPC_HOST") ?? "";
  if (missing.length === tlsNames.length && !plaintext && !isLoopbackHost(host)) {
    problems.push(
      `KEYRUN_GRPC_HOST must be a loopback address like 127.0.0.1, unless you set ${tlsNames.join(", ")}, or KEYRUN_GRPC_PLAINTEXT=true where the network itself is trusted.`,
    );
  }
  return problems;
}

const oidcNames = ["KEYRUN_OIDC_ISSUER", "KEYRUN_OIDC_CLIENT_ID", "KEYRUN_OIDC_CLIENT_SECRET"] as const;

/** The issuer must know the public URL, and a listener's address does not say what that is. */
function signInProblems(textOf: TextOf): string[] {
  if (oidcNames.every((name) => textOf(name) === undefined)) return strayOidcProblems(textOf);
  const problems: string[] = [];
  const missing = [...oidcNames, "KEYRUN_PUBLIC_URL"].filter((name) => textOf(name) === undefined);
  if (missing.length > 0) {
    problems.push(
      `${missing.join(" and ")} must be set too: sign-in with OpenID Connect takes ${oidcNames.join(", ")} and KEYRUN_PUBLIC_URL.`,
    );
  }
  if (textOf(assumeName) === "true" && anyTenant.test(textOf("KEYRUN_OIDC_ISSUER") ?? "")) {
    problems.push(
      `KEYRUN_OIDC_ISSUER must name one tenant, such as https://login.microsoftonline.com/<tenant id>/v2.0, where ${assumeName} is true: in a tenant of their own, strangers can give themselves any e-mail.`,
    );
  }
  return problems;
}

const assumeName = "KEYRUN_OIDC_ASSUME_EMAIL_VERIFIED";

/** The issuers of Microsoft Entra that take accounts of every tenant. */
const anyTenant = /^https:\/\/login\.microsoftonline\.[a-z]+\/(common|organizations|consumers)(\/|$)/i;

/** What would have no effect without an issuer. */
function strayOidcProblems(textOf: TextOf): string[] {
  const stray = [
    ...(textOf("KEYRUN_OIDC_CLIENT_AUTH_METHOD") === undefined ? [] : ["KEYRUN_OIDC_CLIENT_AUTH_METHOD is"]),
    ...(textOf(assumeName) === "true" ? [`${assumeName} is true`] : []),
  ];
  return stray.map((words) => `KEYRUN_OIDC_ISSUER must be set where ${words}, or that removed.`);
}

function storeProblems(textOf: TextOf): string[] {
  if (textOf("KEYRUN_MONGODB_URI") === undefined || textOf("KEYRUN_SECRET") !== undefined) return [];
  return [
    "KEYRUN_SECRET_FILE or KEYRUN_SECRET must be set where KEYRUN_MONGODB_URI is: a secret made in the data folder could be lost, and every key with it. `(umask 077; set -C; openssl rand -hex 32 > keyrun-secret)` makes a file for KEYRUN_SECRET_FILE.",
  ];
}

function sharedLimitProblems(textOf: TextOf): string[] {
  const hasRedis = textOf("KEYRUN_REDIS_URL") !== undefined;
  const problems: string[] = [];
  if (hasRedis && textOf("KEYRUN_MONGODB_URI") === undefined) {
    problems.push(
      "KEYRUN_MONGODB_URI must be set where KEYRUN_REDIS_URL is: instances that count together also keep keys and teams together.",
    );
  }
  if (hasRedis && textOf("KEYRUN_SERVICE_TOKEN") === undefined) {
    problems.push(
      "KEYRUN_SERVICE_TOKEN_FILE or KEYRUN_SERVICE_TOKEN must be set where KEYRUN_REDIS_URL is: every instance of a fleet has the same. `(umask 077; set -C; openssl rand -hex 32 > keyrun-secret-token)` makes a file.",
    );
  }
  if (!hasRedis && textOf("KEYRUN_ADVERTISE_ADDRESS") !== undefined) {
    problems.push("KEYRUN_REDIS_URL must be set where KEYRUN_ADVERTISE_ADDRESS is, or that removed.");
  }
  if (!hasRedis && textOf("KEYRUN_LIMIT_FALLBACK") === "refuse") {
    problems.push("KEYRUN_REDIS_URL must be set where KEYRUN_LIMIT_FALLBACK is refuse, or that removed.");
  }
  return problems;
}

function portProblems(textOf: TextOf): string[] {
  const port = textOf("KEYRUN_PORT");
  const collides =
    port !== "0" &&
    port === textOf("KEYRUN_GRPC_PORT") &&
    textOf("KEYRUN_HOST") === textOf("KEYRUN_GRPC_HOST");
  return collides ? ["KEYRUN_PORT and KEYRUN_GRPC_PORT must differ where the hosts are the same."] : [];
}

/**
 * A team has half of the bytes of all runs. A run with an Idempotency-Key reserves twice for its
 * text, once with its request, and once for its output: each time two bytes for one.
 */
function bytesProblems(textOf: TextOf): string[] {
  const runBytesMax = textOf("KEYRUN_RUN_BYTES_MAX");
  if (runBytesMax === undefined) return [];
  return ["KEYRUN_BODY_BYTES_MAX", "KEYRUN_APP_OUTPUT_BYTES_MAX"]
    .filter((name) => 12 * Number(textOf(name)) > Number(runBytesMax))
    .map(
      (name) =>
        `KEYRUN_RUN_BYTES_MAX must be at least twelve times ${name}: a team gets half of it, and a run reserves up to six bytes for each.`,
    );
}

/**
 * The candidate with the fewest edits from `name`, for "did you mean". Undefined if even that needs
 * edits for more than a third of the letters.
 */
export function nearestName(name: string, candidates: readonly string[]): string | undefined {
  const ranked = candidates
    .map((candidate) => ({ candidate, edits: editsBetween(name, candidate) }))
    .sort((a, b) => a.edits - b.edits);
  const best = ranked[0];
  return best !== undefined && best.edits <= name.length / 3 ? best.candidate : undefined;
}

/** The Levenshtein distance, computed row by row. */
function editsBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 1; i <= from.length; i++) {
    const above = row;
    row = [i];
    for (let j = 1; j <= to.length; j++) {
      const change = (above[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      row.push(Math.min(change, (above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
  }
  return row[to.length] ?? 0;
}
