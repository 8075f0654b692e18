/** What the settings come to: one frozen object, which `src/app/` hands out in parts. */

/** The plans, smallest first. */
export const planNames = ["free", "pro", "team", "enterprise"] as const;
export type PlanName = (typeof planNames)[number];

/** The spans that a quota counts, both of UTC. */
export const quotaPeriods = ["day", "month"] as const;
export type QuotaPeriod = (typeof quotaPeriods)[number];

/** How many requests are allowed in each day or month. */
export interface QuotaLimit {
  /** 1 to `quotaRequestsMax`. */
  readonly requests: number;
  readonly period: QuotaPeriod;
}

export const quotaRequestsMax = 1_000_000_000_000;

/** The operator's settings: read once from the environment by `readSettings`, then frozen. */
export interface Config {
  /** The public listener. Port 0 picks a free one. */
  readonly host: string;
  readonly port: number;
  /** The internal listener. Port 0 picks a free one. */
  readonly grpcHost: string;
  readonly grpcPort: number;
  /** TLS of the internal listener, as file paths; undefined: plaintext. */
  readonly grpcTls:
    | { readonly certFile: string; readonly keyFile: string; readonly clientCaFile: string }
    | undefined;
  /** Where other instances reach the internal listener, as host and port. */
  readonly advertiseAddress: string | undefined;
  /** Where the embedded store, the secrets made at first start and `grpc-address` live. */
  readonly dataDir: string;
  /** Undefined: the embedded store. */
  readonly mongodbUri: string | undefined;
  /** The limits that several instances share. Undefined: this process counts alone. */
  readonly sharedLimit: SharedLimitConfig | undefined;
  /** At least 32 bytes each, newest first. Undefined: made at first start in the data folder. */
  readonly secrets: readonly Buffer[] | undefined;
  /** Undefined: made at first start in the data folder. */
  readonly serviceToken: string | undefined;
  /** Requests a minute of each plan, 1 to 100,000. */
  readonly planLimits: Readonly<Record<PlanName, number>>;
  /** The quota of each plan that has one. */
  readonly planQuotas: PlanQuotas;
  readonly keyPrefix: string;
  /** The name of a second header for keys. Undefined: they come in `Authorization` alone. */
  readonly keyHeader: string | undefined;
  readonly keysPerTeamMax: number;
  readonly bodyBytesMax: number;
  readonly appOutputBytesMax: number;
  /** Bytes that runs may reserve. Undefined: by the memory of the process. */
  readonly runBytesMax: number | undefined;
  /** Runs of one app at once. */
  readonly appRunsMax: number;
  /** Answers to runs with an Idempotency-Key are kept for so long. With 0 the header is refused. */
  readonly idempotencyHours: number;
  /** Streams of one app at once. */
  readonly appStreamsMax: number;
  /** Runs in the background of one app at once, on each instance. */
  readonly appBackgroundRunsMax: number;
  readonly connectionsMax: number;
  /** Connections of one address at once. Undefined: no bound. Loopback peers have none either. */
  readonly connectionsPerAddressMax: number | undefined;
  /** How long an idle connection of a caller, or of a proxy, stays open. */
  readonly keepAliveMs: number;
  /** How many proxies stand in front of Keyrun and are trusted to name the client's address. */
  readonly trustProxyHops: number;
  /** Where browsers reach the screen: scheme, host and port. Undefined: the public listener. */
  readonly publicUrl: string | undefined;
  /** Undefined: people sign in by one-time links on loopback, and not at all elsewhere. */
  readonly oidc: OidcConfig | undefined;
  readonly drainDelayMs: number;
  readonly drainMsMax: number;
  /** Events of the audit log are kept for so many days. */
  readonly auditDays: number;
  /** Whether each request gets a line in the log. */
  readonly accessLog: boolean;
  readonly logLevel: "fatal" | "error" | "warn" | "info" | "debug" | "trace" | "silent";
}

/** The quotas of plans. A plan that is not named has none. */
export type PlanQuotas = Readonly<Partial<Record<PlanName, QuotaLimit>>>;

/** The Redis in which instances count together, and what they do while it does not answer. */
export interface SharedLimitConfig {
  readonly redisUrl: string;
  readonly fallback: "share" | "refuse";
}

/** The OpenID Connect issuer that people sign in with, and Keyrun's credentials there. */
export interface OidcConfig {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** How the secret is sent; undefined if the issuer's metadata decides. */
  readonly clientAuthMethod: "client_secret_basic" | "client_secret_post" | undefined;
  /** Whether an e-mail counts of which the issuer does not say whether it is verified. */
  readonly assumeEmailVerified: boolean;
}

/** Whether Keyrun keeps its records in the embedded store, which one process alone can open. */
export function isEmbedded({ mongodbUri }: Pick<Config, "mongodbUri">): boolean {
  return mongodbUri === undefined;
}
