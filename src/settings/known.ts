import { z } from "zod";
import type { PlanName } from "../config.ts";
import {
  filePath,
  flag,
  host,
  issuer,
  matching,
  numbersByName,
  oneOf,
  origin,
  secretList,
  wholeNumber,
} from "./text.ts";

/** What people are told about a setting, beside its name and schema. */
export interface SettingFacts {
  /** The text that counts where the setting is absent; undefined where absence has its own meaning. */
  readonly byDefault?: string;
  /** What absence means, where there is no default text. */
  readonly whenAbsent?: string;
  /** One sentence on what the setting does. */
  readonly does: string;
  /** A text that the schema takes; undefined for a secret. */
  readonly example?: string;
  /** Also read from the file that `<name>_FILE` names, and never repeated in a message. */
  readonly secret?: true;
}

/** The facts of each setting in `environment`, by its schema. */
export const settingFacts = z.registry<SettingFacts>();

const bytes = { min: 1, max: 16 * 1024 * 1024 };
const port = { min: 0, max: 65_535 };
const planLimits: Record<PlanName, number> = { free: 60, pro: 300, team: 600, enterprise: 3000 };

/**
 * Every setting that Keyrun knows, once: its name, its form, its default and its words. The checks at start,
 * `.env.example` and the README's table all come from here.
 */
export const environment = z.object({
  KEYRUN_HOST: setting(host(), {
    byDefault: "127.0.0.1",
    does: "Address that the public listener (HTTP API, health) binds to.",
    example: "0.0.0.0",
  }),
  KEYRUN_PORT: setting(wholeNumber(port), {
    byDefault: "8080",
    does: "Port of the public listener; 0 picks a free one, which the start line names.",
    example: "8088",
  }),
  KEYRUN_GRPC_HOST: setting(host(), {
    byDefault: "127.0.0.1",
    does: "Address that the internal listener (gRPC, metrics) binds to.",
    example: "10.0.0.5",
  }),
  KEYRUN_GRPC_PORT: setting(wholeNumber(port), {
    byDefault: "8081",
    does: "Port of the internal listener; 0 picks a free one, which `grpc-address` in the data folder names.",
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
    does: "PEM file with the authority that must have signed a client's certificate.",
    example: "tls/clients-ca.pem",
  }),
  KEYRUN_GRPC_PLAINTEXT: setting(flag(), {
    byDefault: "false",
    does: "Lets the internal listener leave loopback without TLS, where the network itself is trusted.",
    example: "true",
  }),
  KEYRUN_DATA_DIR: setting(filePath(), {
    byDefault: "data",
    does: "Folder of the embedded store, of what is made at first start, and of `grpc-address`.",
    example: "/var/lib/keyrun",
  }),
  KEYRUN_SECRET: optionalSetting(secretList({ bytesMin: 32, countMax: 8 }), {
    whenAbsent: "made at first start in the data folder",
    does: "Service secrets that key digests are made with, base64url, comma-separated, newest first; required with MongoDB.",
    secret: true,
  }),
  KEYRUN_SERVICE_TOKEN: optionalSetting(
    // The characters of RFC 6750, section 2.1: it travels as a bearer token.
    matching(
      /^[A-Za-z0-9._~+/=-]{32,512}$/,
      "32 to 512 characters of A-Z a-z 0-9 . _ ~ + / = -; `openssl rand -hex 32` makes one",
    ),
    {
      whenAbsent: "made at first start in the data folder",
      does: "Token that internal services and this command line send to the internal listener.",
      secret: true,
    },
  ),
  KEYRUN_MONGODB_URI: optionalSetting(
    matching(/^mongodb(\+srv)?:\/\/\S+$/, "an address that begins with mongodb:// or mongodb+srv://"),
    {
      whenAbsent: "the embedded store",
      does: "Address of the MongoDB that holds keys, teams and apps; it may hold a password.",
      secret: true,
    },
  ),
  KEYRUN_PUBLIC_URL: optionalSetting(origin(), {
    whenAbsent: "the public listener's own address",
    does: "Address at which browsers reach Keyrun; the screen answers to no other host.",
    example: "https://keyrun.example.com",
  }),
  KEYRUN_OIDC_ISSUER: optionalSetting(issuer(), {
    whenAbsent: "one-time links on the loopback, and no screen elsewhere",
    does: "OpenID Connect issuer that people sign in with; its client's redirect URI is `<KEYRUN_PUBLIC_URL>/sign-in/callback`.",
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
  KEYRUN_PLAN_LIMITS: setting(numbersByName(planLimits, { min: 1, max: 100_000 }), {
    byDefault: Object.entries(planLimits)
      .map(([plan, limit]) => `${plan}=${limit}`)
      .join(),
    does: "Requests a minute that each plan allows a team; a plan left out keeps its default.",
    example: "free=10,pro=100",
  }),
  KEYRUN_KEYS_PER_TEAM_MAX: setting(wholeNumber({ min: 1, max: 10_000 }), {
    byDefault: "50",
    does: "Keys of one team that may be active at once.",
    example: "200",
  }),
  KEYRUN_KEY_PREFIX: setting(
    matching(/^[a-z][a-z0-9]{0,11}$/, "a small letter and up to 11 small letters or digits"),
    {
      byDefault: "svc",
      does: "What every key begins with, before the underscore; after a change, keys made before it are refused.",
      example: "acme",
    },
  ),
  KEYRUN_BODY_BYTES_MAX: setting(wholeNumber(bytes), {
    byDefault: "1048576",
    does: "Bytes of a request's body, at the most.",
    example: "65536",
  }),
  KEYRUN_APP_OUTPUT_BYTES_MAX: setting(wholeNumber(bytes), {
    byDefault: "1048576",
    does: "Bytes of an app's answer, at the most.",
    example: "65536",
  }),
  KEYRUN_APP_RUNS_MAX: setting(wholeNumber({ min: 1, max: 10_000 }), {
    byDefault: "64",
    does: "Runs of one app at once; past it callers are told that the app is busy.",
    example: "8",
  }),
  KEYRUN_CONNECTIONS_MAX: setting(wholeNumber({ min: 1, max: 1_000_000 }), {
    byDefault: "20000",
    does: "Connections to each of the two listeners at once.",
    example: "5000",
  }),
  KEYRUN_CONNECTIONS_PER_ADDRESS_MAX: setting(wholeNumber({ min: 1, max: 1_000_000 }), {
    byDefault: "200",
    does: "Connections of one address at once; off for loopback, and where KEYRUN_TRUST_PROXY is above 0.",
    example: "50",
  }),
  KEYRUN_TRUST_PROXY: setting(wholeNumber({ min: 0, max: 16 }), {
    byDefault: "0",
    does: "How many proxies stand in front, so that X-Forwarded-For can be believed that far.",
    example: "1",
  }),
  KEYRUN_DRAIN_DELAY_MS: setting(wholeNumber({ min: 0, max: 300_000 }), {
    byDefault: "0",
    does: "Milliseconds that serving goes on after SIGTERM with /readyz at 503; 5000 suits a balancer.",
    example: "5000",
  }),
  KEYRUN_DRAIN_MS_MAX: setting(wholeNumber({ min: 0, max: 600_000 }), {
    byDefault: "10000",
    does: "Milliseconds that running requests get after that to end by themselves.",
    example: "30000",
  }),
  KEYRUN_LOG_LEVEL: setting(oneOf(["fatal", "error", "warn", "info", "debug", "trace", "silent"]), {
    byDefault: "info",
    does: "What is logged on standard error: this level and above.",
    example: "debug",
  }),
});

/** Names that share the prefix and are not the server's: a caller's, and those of tests. */
export function isForeignName(name: string): boolean {
  return name === "KEYRUN_API_KEY" || name === "KEYRUN_URL" || name.startsWith("KEYRUN_TEST_");
}

/** A schema whose default goes through the same reading as what people write. */
function setting<Value>(schema: z.ZodType<Value, string>, facts: SettingFacts & { byDefault: string }) {
  return schema.prefault(facts.byDefault).register(settingFacts, facts);
}

function optionalSetting<Value>(
  schema: z.ZodType<Value, string>,
  facts: SettingFacts & { whenAbsent: string },
) {
  return schema.optional().register(settingFacts, facts);
}
