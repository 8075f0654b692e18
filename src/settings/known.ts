/** The table of all settings. Each has its form, its default and its words in one place. */

import { z } from "zod";
import type { PlanName } from "./config.ts";
import { mongodbUriProblem } from "./mongodb-uri.ts";
import {
  checked,
  filePath,
  flag,
  host,
  hostAndPort,
  issuer,
  keyHeader,
  matching,
  numbersByName,
  oneOf,
  origin,
  planQuotas,
  redisAddress,
  secretList,
  wholeNumber,
} from "./text.ts";

/** The words about a setting, for messages and docs. */
interface SettingFacts {
  /** The default as text. Undefined if absence has a meaning of its own. */
  readonly byDefault?: string;
  /** What absence means, if there is no default. */
  readonly whenAbsent?: string;
  /** What the setting does, in a sentence or two. */
  readonly does: string;
  /** A valid text. Undefined for a secret. */
  readonly example?: string;
  /** The setting may also come from the file that `<name>_FILE` names. Never in a message. */
  readonly secret?: true;
}

/** The facts of each setting in `environment`, by its schema. */
export const settingFacts = z.registry<SettingFacts>();

/** How many secrets a rotation may leave in the list. */
export const serviceSecretsMax = 8;

const bytes = { min: 1, max: 16 * 1024 * 1024 };
const port = { min: 0, max: 65_535 };
const planLimits: Record<PlanName, number> = { free: 60, pro: 300, team: 600, enterprise: 3000 };

/**
 * Every setting: its name, form, default and description. The checks at start, `.env.example` and
 * docs/settings.md all come from here.
 */
export const environment = z.object({
  KEYRUN_HOST: setting(host(), {
    byDefault: "127.0.0.1",
    does: "Address that the public listener (HTTP API, health) binds to. `::` is every address of IPv6 and IPv4, and `0.0.0.0` of IPv4 alone.",
    example: "::",
  }),
  KEYRUN_PORT: setting(wholeNumber(port), {
    byDefault: "8080",
    does: "Port of the public listener. 0 picks a free port, which start prints.",
    example: "8088",
  }),
  KEYRUN_GRPC_HOST: setting(host(), {
    byDefault: "127.0.0.1",
    does: "Address that the internal listener (gRPC, metrics) binds to.",
    example: "10.0.0.5",
  }),
  KEYRUN_GRPC_PORT: setting(wholeNumber(port), {
    byDefault: "8081",
    does: "Port of the internal listener. 0 picks a free port. The file `grpc-address` in the data folder holds the address.",
    example: "9090",
  }),
  KEYRUN_GRPC_TLS_CERT_FILE: optionalSetting(filePath(), {
    whenAbsent: "no TLS",
    does: "PEM file with the internal listener's certificate chain.",
    example: "tls/server.pem",
  }),
  KEYRUN_GRPC_TLS_KEY_FILE: optionalSetting(filePath(), {
    whenAbsent: "no TLS",
    does: "PEM file with the private key of that certificate.",
    example: "tls/server-key.pem",
  }),
  KEYRUN_GRPC_TLS_CLIENT_CA_FILE: optionalSetting(filePath(), {
    whenAbsent: "no TLS",
    does: "PEM file with the authority that must have signed the certificate of each client.",
    example: "tls/clients-ca.pem",
  }),
  KEYRUN_GRPC_PLAINTEXT: setting(flag(), {
    byDefault: "false",
    does: "Allows the internal listener off the loopback without TLS, in a network that you trust.",
    example: "true",
  }),
  KEYRUN_ADVERTISE_ADDRESS: optionalSetting(hostAndPort(), {
    whenAbsent: "changes on other instances are seen with the next heartbeat, up to 250 ms later",
    does: "Host and port at which the other instances of a fleet reach this one's internal listener. The port is behind the last colon: an IPv6 address needs no brackets.",
    example: "keyrun-1.internal:8081",
  }),
  KEYRUN_DATA_DIR: setting(filePath(), {
    byDefault: "data",
    does: "Folder of the embedded store, of the secrets that the first start makes, and of `grpc-address`.",
    example: "/var/lib/keyrun",
  }),
  KEYRUN_SECRET: optionalSetting(secretList({ bytesMin: 32, countMax: serviceSecretsMax }), {
    whenAbsent: "made at first start in the data folder",
    does: "Secrets for the digests of keys: base64url, newest first, separated by commas or lines. Required with MongoDB.",
    secret: true,
  }),
  KEYRUN_SERVICE_TOKEN: optionalSetting(
    // The token is sent as a bearer token: these are the characters of RFC 6750, section 2.1.
    matching(
      /^[A-Za-z0-9._~+/=-]{32,512}$/,
      "32 to 512 characters of A-Z a-z 0-9 . _ ~ + / = -; `openssl rand -hex 32` makes one",
    ),
    {
      whenAbsent: "made at first start in the data folder",
      does: "Token that internal services and the command line send to the internal listener.",
      secret: true,
    },
  ),
  KEYRUN_MONGODB_URI: optionalSetting(checked(mongodbUriProblem), {
    whenAbsent: "the embedded store",
    does: "Address of the MongoDB database, with user and password if it needs them, and its options.",
    secret: true,
  }),
  KEYRUN_REDIS_URL: optionalSetting(redisAddress(), {
    whenAbsent: "this process counts alone",
    does: "Address of the Redis in which several instances count requests together, with user and password if it needs them. Only with MongoDB.",
    secret: true,
  }),
  KEYRUN_LIMIT_FALLBACK: setting(oneOf(["share", "refuse"]), {
    byDefault: "share",
    does: "What an instance does while Redis does not answer: `share` admits its share of each limit, `refuse` answers 503.",
    example: "refuse",
  }),
  KEYRUN_PUBLIC_URL: optionalSetting(origin(), {
    whenAbsent: "the public listener's own address",
    does: "Address at which browsers reach Keyrun. The screen answers under no other host, and security.txt names it.",
    example: "https://keyrun.example.com",
  }),
  KEYRUN_OIDC_ISSUER: optionalSetting(issuer(), {
    whenAbsent: "one-time links on the loopback with the embedded store, and no screen elsewhere",
    does: "OpenID Connect issuer that people sign in with. The redirect URI is `<KEYRUN_PUBLIC_URL>/sign-in/callback`.",
    example: "https://accounts.example.com",
  }),
  KEYRUN_OIDC_CLIENT_ID: optionalSetting(
    matching(/^[\x21-\x7e]{1,256}$/, "1 to 256 printable characters without spaces"),
    { whenAbsent: "no OpenID Connect", does: "Keyrun's client id at the issuer.", example: "keyrun" },
  ),
  KEYRUN_OIDC_CLIENT_SECRET: optionalSetting(
    matching(/^[\x20-\x7e]{1,1024}$/, "1 to 1024 printable characters"),
    { whenAbsent: "no OpenID Connect", does: "Keyrun's client secret at the issuer.", secret: true },
  ),
  KEYRUN_OIDC_CLIENT_AUTH_METHOD: optionalSetting(oneOf(["client_secret_basic", "client_secret_post"]), {
    whenAbsent: "Basic, or in the body where the issuer's metadata does not name Basic",
    does: "How Keyrun sends its client secret to the issuer: by HTTP Basic, or in the body. For an issuer where the client may use one of them only.",
    example: "client_secret_post",
  }),
  KEYRUN_OIDC_ASSUME_EMAIL_VERIFIED: setting(flag(), {
    byDefault: "false",
    does: "Takes e-mails of which the issuer does not say whether they are verified, as Microsoft Entra. Memberships go by e-mail: where people can write the e-mail of their account themselves, one can then sign in as another.",
    example: "true",
  }),
  KEYRUN_PLAN_LIMITS: setting(numbersByName(planLimits, { min: 1, max: 100_000 }), {
    byDefault: Object.entries(planLimits)
      .map(([plan, limit]) => `${plan}=${limit}`)
      .join(),
    does: "Requests a minute that each plan allows a team. A plan that is left out keeps its default.",
    example: "free=10,pro=100",
  }),
  KEYRUN_PLAN_QUOTAS: optionalSetting(planQuotas(), {
    whenAbsent: "no plan has a quota",
    does: "Requests a day or a month of UTC that each plan allows a team, beside its limit a minute. A plan that is left out has none.",
    example: "free=1000/day,pro=100000/month",
  }),
  KEYRUN_KEYS_PER_TEAM_MAX: setting(wholeNumber({ min: 1, max: 10_000 }), {
    byDefault: "50",
    does: "Active keys that one team may have.",
    example: "200",
  }),
  KEYRUN_KEY_PREFIX: setting(
    matching(/^[a-z][a-z0-9]{0,11}$/, "a small letter and up to 11 small letters or digits"),
    {
      byDefault: "svc",
      does: "Prefix of every key, before the underscore. After a change, older keys are refused.",
      example: "acme",
    },
  ),
  KEYRUN_KEY_HEADER: optionalSetting(keyHeader(), {
    whenAbsent: "keys are read from Authorization alone",
    does: "A second header for keys, without `Bearer`, over HTTP and as metadata of gRPC. Where a request brings it, Authorization is not looked at: for gateways that keep that for themselves.",
    example: "X-API-Key",
  }),
  KEYRUN_BODY_BYTES_MAX: setting(wholeNumber(bytes), {
    byDefault: "1048576",
    does: "Largest body of a request, in bytes.",
    example: "65536",
  }),
  KEYRUN_APP_OUTPUT_BYTES_MAX: setting(wholeNumber(bytes), {
    byDefault: "1048576",
    does: "Largest answer of an app, in bytes. If the app streams: its largest message.",
    example: "65536",
  }),
  KEYRUN_RUN_BYTES_MAX: optionalSetting(wholeNumber({ min: 16 * 1024 * 1024, max: 8 * 1024 ** 3 }), {
    whenAbsent: "a quarter of the memory that the process may use, at most 134217728",
    does: "Bytes that all runs reserve in memory, on each instance: two for each byte of a body, before it is read, and of an output, until the run ends. Runs of up to 8 KiB reserve nothing. A request for which there is no room is refused with `overloaded`. One team gets half of them. At least twelve times the largest body and the largest answer of an app.",
    example: "67108864",
  }),
  KEYRUN_APP_RUNS_MAX: setting(wholeNumber({ min: 1, max: 10_000 }), {
    byDefault: "64",
    does: "Runs of one app at the same time, on each instance. A further run is refused with `app_busy`. While teams share an app, one of them gets three quarters.",
    example: "8",
  }),
  KEYRUN_IDEMPOTENCY_HOURS: setting(wholeNumber({ min: 0, max: 168 }), {
    byDefault: "24",
    does: "Hours for which the answer to a run with an Idempotency-Key is kept. 0: nothing is kept, and the header is refused.",
    example: "72",
  }),
  KEYRUN_APP_BACKGROUND_RUNS_MAX: setting(wholeNumber({ min: 1, max: 4_096 }), {
    byDefault: "256",
    does: "Runs in the background of one app at the same time, on each instance, counted apart from its runs and streams. A further one is refused with `app_busy`. While teams share an app, one of them gets three quarters.",
    example: "32",
  }),
  KEYRUN_APP_STREAMS_MAX: setting(wholeNumber({ min: 1, max: 4_096 }), {
    byDefault: "256",
    does: "Streams of one app at the same time, on each instance, counted apart from its runs. A further stream is refused with `app_busy`. While teams share an app, one of them gets three quarters.",
    example: "32",
  }),
  KEYRUN_CONNECTIONS_MAX: setting(wholeNumber({ min: 1, max: 1_000_000 }), {
    byDefault: "20000",
    does: "Connections at the same time, to each of the two listeners of each instance.",
    example: "5000",
  }),
  KEYRUN_CONNECTIONS_PER_ADDRESS_MAX: setting(wholeNumber({ min: 1, max: 1_000_000 }), {
    byDefault: "200",
    does: "Connections of one address to the public listener at the same time. No bound for the loopback, or if KEYRUN_TRUST_PROXY is above 0.",
    example: "50",
  }),
  KEYRUN_KEEP_ALIVE_S: setting(wholeNumber({ min: 5, max: 3_600 }), {
    byDefault: "65",
    does: "Seconds for which Keyrun keeps an idle connection open, over HTTP/1.1 and HTTP/2, on both listeners. It must be more than the balancer in front keeps its own.",
    example: "620",
  }),
  KEYRUN_TRUST_PROXY: setting(wholeNumber({ min: 0, max: 16 }), {
    byDefault: "0",
    does: "Number of proxies in front of Keyrun: it trusts that many entries of X-Forwarded-For.",
    example: "1",
  }),
  KEYRUN_DRAIN_DELAY_MS: setting(wholeNumber({ min: 0, max: 300_000 }), {
    byDefault: "0",
    does: "Milliseconds that Keyrun serves on after SIGTERM while /readyz answers 503. 5000 suits most load balancers.",
    example: "5000",
  }),
  KEYRUN_DRAIN_MS_MAX: setting(wholeNumber({ min: 0, max: 3_600_000 }), {
    byDefault: "10000",
    does: "Milliseconds that running requests then have to end, an hour at most. Whatever stops Keyrun must wait longer.",
    example: "30000",
  }),
  KEYRUN_AUDIT_DAYS: setting(wholeNumber({ min: 1, max: 36_500 }), {
    byDefault: "400",
    does: "Days for which the audit log keeps an event.",
    example: "730",
  }),
  KEYRUN_ACCESS_LOG: setting(flag(), {
    byDefault: "false",
    does: "Writes a line for each request to the log: route, team, key id, status, seconds.",
    example: "true",
  }),
  KEYRUN_LOG_LEVEL: setting(oneOf(["fatal", "error", "warn", "info", "debug", "trace", "silent"]), {
    byDefault: "info",
    does: "Lowest level of what is logged on standard error.",
    example: "debug",
  }),
});

/** Names with the same prefix that are not settings: those of callers and of tests. */
export function isForeignName(name: string): boolean {
  return name === "KEYRUN_API_KEY" || name === "KEYRUN_URL" || name.startsWith("KEYRUN_TEST_");
}

/** A setting with a default, which is parsed as if the operator had written it. */
function setting<Value>(schema: z.ZodType<Value, string>, facts: SettingFacts & { byDefault: string }) {
  return schema.prefault(facts.byDefault).register(settingFacts, facts);
}

/** A setting without a default, whose absence has a meaning. */
function optionalSetting<Value>(
  schema: z.ZodType<Value, string>,
  facts: SettingFacts & { whenAbsent: string },
) {
  return schema.optional().register(settingFacts, facts);
}
