import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { environment, settingFacts } from "#src/settings/known.ts";
import { readSettings } from "#src/settings/read-settings.ts";

const secret = "Zm9yIHRlc3RzIG9ubHksIG5vdCBhIHNlY3JldCBvZiBhbnlvbmU";
const token = "token-for-tests-only-0123456789-abcdef";
const noFiles = (): string => {
  throw new Error("no file should be read");
};

const accepted = (env: Record<string, string>, readFile = noFiles) => {
  const outcome = readSettings(env, readFile);
  if (!("ok" in outcome)) throw new Error(outcome.problems.join("\n"));
  return outcome.ok;
};

const refused = (env: Record<string, string>, readFile: (path: string) => string = noFiles) => {
  const outcome = readSettings(env, readFile);
  if (!("problems" in outcome)) throw new Error("the settings were accepted");
  return outcome.problems;
};

const entries = Object.entries(environment.shape).map(([name, schema]) => ({
  name,
  schema,
  facts: settingFacts.get(schema)!,
}));
const secretEntries = entries.filter(({ facts }) => facts.secret);

describe("with nothing set", () => {
  test("the design's defaults hold, on loopback only", () => {
    expect(accepted({})).toEqual({
      host: "127.0.0.1",
      port: 8080,
      grpcHost: "127.0.0.1",
      grpcPort: 8081,
      grpcTls: undefined,
      dataDir: "data",
      mongodbUri: undefined,
      sharedLimit: undefined,
      secrets: undefined,
      serviceToken: undefined,
      planLimits: { free: 60, pro: 300, team: 600, enterprise: 3000 },
      planQuotas: {},
      keyPrefix: "svc",
      keyHeader: undefined,
      keysPerTeamMax: 50,
      bodyBytesMax: 1_048_576,
      appOutputBytesMax: 1_048_576,
      runBytesMax: undefined,
      appRunsMax: 64,
      appStreamsMax: 256,
      appBackgroundRunsMax: 256,
      idempotencyHours: 24,
      connectionsMax: 20_000,
      connectionsPerAddressMax: 200,
      keepAliveMs: 65_000,
      trustProxyHops: 0,
      drainDelayMs: 0,
      drainMsMax: 10_000,
      auditDays: 400,
      accessLog: false,
      logLevel: "info",
    });
  });

  test("the config and what it holds are frozen", () => {
    const config = accepted({ KEYRUN_SECRET: secret });
    expect([config, config.planLimits, config.planQuotas, config.secrets].every(Object.isFrozen)).toBe(true);
  });
});

describe("each setting", () => {
  test.each(entries)(
    "$name has one sentence, an absence explained, and no example if it is a secret",
    ({ facts }) => {
      expect(facts.does).toMatch(/^[A-Z][^\n|]*\.$/);
      expect(facts.byDefault ?? facts.whenAbsent).toBeTruthy();
      expect(facts.example === undefined).toBe(facts.secret === true);
    },
  );

  test.each(entries.filter(({ facts }) => facts.example))(
    "$name takes its own example",
    ({ schema, facts }) => {
      expect(schema.safeParse(facts.example).success).toBe(true);
    },
  );

  test("reaches the config from its own name", () => {
    const config = accepted({
      KEYRUN_HOST: "::",
      KEYRUN_PORT: "0",
      KEYRUN_GRPC_HOST: "keyrun.internal",
      KEYRUN_GRPC_PORT: "65535",
      KEYRUN_GRPC_TLS_CERT_FILE: "cert.pem",
      KEYRUN_GRPC_TLS_KEY_FILE: "key.pem",
      KEYRUN_GRPC_TLS_CLIENT_CA_FILE: "ca.pem",
      KEYRUN_DATA_DIR: "/var/lib/keyrun",
      KEYRUN_MONGODB_URI: "mongodb://db.internal/keyrun",
      KEYRUN_REDIS_URL: "rediss://keyrun:pass@redis.internal:6380/2",
      KEYRUN_LIMIT_FALLBACK: "refuse",
      KEYRUN_ADVERTISE_ADDRESS: "[::1]:8081",
      KEYRUN_SECRET: `${secret},${"ab".repeat(32)}`,
      KEYRUN_SERVICE_TOKEN: token,
      KEYRUN_PLAN_LIMITS: "pro=7,free=1",
      KEYRUN_PLAN_QUOTAS: "pro=1000000000000/month,free=1/day",
      KEYRUN_KEY_PREFIX: "acme1",
      KEYRUN_KEY_HEADER: "X-API-Key",
      KEYRUN_KEYS_PER_TEAM_MAX: "2",
      KEYRUN_BODY_BYTES_MAX: "3",
      KEYRUN_APP_OUTPUT_BYTES_MAX: "4",
      KEYRUN_RUN_BYTES_MAX: "16777216",
      KEYRUN_IDEMPOTENCY_HOURS: "48",
      KEYRUN_APP_RUNS_MAX: "5",
      KEYRUN_APP_STREAMS_MAX: "11",
      KEYRUN_APP_BACKGROUND_RUNS_MAX: "12",
      KEYRUN_CONNECTIONS_MAX: "6",
      KEYRUN_CONNECTIONS_PER_ADDRESS_MAX: "8",
      KEYRUN_KEEP_ALIVE_S: "620",
      KEYRUN_TRUST_PROXY: "0",
      KEYRUN_DRAIN_DELAY_MS: "9",
      KEYRUN_DRAIN_MS_MAX: "3600000",
      KEYRUN_AUDIT_DAYS: "30",
      KEYRUN_ACCESS_LOG: "true",
      KEYRUN_LOG_LEVEL: "silent",
    });
    expect(config).toEqual({
      host: "::",
      port: 0,
      grpcHost: "keyrun.internal",
      grpcPort: 65_535,
      grpcTls: { certFile: "cert.pem", keyFile: "key.pem", clientCaFile: "ca.pem" },
      advertiseAddress: "[::1]:8081",
      dataDir: "/var/lib/keyrun",
      mongodbUri: "mongodb://db.internal/keyrun",
      sharedLimit: { redisUrl: "rediss://keyrun:pass@redis.internal:6380/2", fallback: "refuse" },
      secrets: [Buffer.from(secret, "base64url"), Buffer.from("ab".repeat(32), "base64url")],
      serviceToken: token,
      planLimits: { free: 1, pro: 7, team: 600, enterprise: 3000 },
      planQuotas: {
        free: { requests: 1, period: "day" },
        pro: { requests: 1_000_000_000_000, period: "month" },
      },
      keyPrefix: "acme1",
      keyHeader: "X-API-Key",
      keysPerTeamMax: 2,
      bodyBytesMax: 3,
      appOutputBytesMax: 4,
      runBytesMax: 16_777_216,
      appRunsMax: 5,
      appStreamsMax: 11,
      appBackgroundRunsMax: 12,
      idempotencyHours: 48,
      connectionsMax: 6,
      connectionsPerAddressMax: 8,
      keepAliveMs: 620_000,
      trustProxyHops: 0,
      drainDelayMs: 9,
      drainMsMax: 3_600_000,
      auditDays: 30,
      accessLog: true,
      logLevel: "silent",
    });
  });

  test.each([
    ["fd00:10:244::5:8081", "[fd00:10:244::5]:8081"],
    ["fd00:10:244:0:0:0:0:5:8081", "[fd00:10:244:0:0:0:0:5]:8081"],
    ["[fd00:10:244::5]:8081", "[fd00:10:244::5]:8081"],
    ["::1:8081", "[::1]:8081"],
    ["10.0.0.5:8081", "10.0.0.5:8081"],
    ["keyrun-1.internal:8081", "keyrun-1.internal:8081"],
  ])("KEYRUN_ADVERTISE_ADDRESS=%s is that address, with the port behind the last colon", (text, address) => {
    expect(accepted({ ...fleet, KEYRUN_ADVERTISE_ADDRESS: text }).advertiseAddress).toBe(address);
  });

  test.each([
    ["KEYRUN_PORT", "65536"],
    ["KEYRUN_PORT", "-1"],
    ["KEYRUN_PORT", "80.0"],
    ["KEYRUN_PORT", " 80"],
    ["KEYRUN_PORT", "0x50"],
    ["KEYRUN_HOST", "http://localhost"],
    ["KEYRUN_HOST", "a_b"],
    ["KEYRUN_GRPC_PLAINTEXT", "TRUE"],
    ["KEYRUN_GRPC_PLAINTEXT", "constructor"],
    ["KEYRUN_KEY_PREFIX", "Svc"],
    ["KEYRUN_KEY_PREFIX", "abcdefghijklm"],
    ...[
      ...["X API Key", "X-Api-Key:", "Schlüssel", "x".repeat(65), "Authorization", "cookie", "HOST"],
      ...["Connection", "Transfer-Encoding", "Upgrade", "TE", "Proxy-Authorization", "Content-Type"],
      ...[
        "X-Request-Id",
        "X-Forwarded-For",
        "X-Keyrun-Key",
        "Idempotency-Key",
        "key-bin",
        "Accept",
        "Prefer",
      ],
      ...["grpc-timeout", "traceparent", "Keyrun-Client"],
    ].map((name) => ["KEYRUN_KEY_HEADER", name]),
    ["KEYRUN_PLAN_LIMITS", "gold=1"],
    ["KEYRUN_PLAN_LIMITS", "free=0"],
    ["KEYRUN_PLAN_LIMITS", "free=1,free=2"],
    ["KEYRUN_PLAN_LIMITS", "free=1=2"],
    ["KEYRUN_PLAN_LIMITS", "free=100001"],
    ["KEYRUN_PLAN_QUOTAS", "gold=1/day"],
    ["KEYRUN_PLAN_QUOTAS", "free=0/day"],
    ["KEYRUN_PLAN_QUOTAS", "free=1"],
    ["KEYRUN_PLAN_QUOTAS", "free=1/hour"],
    ["KEYRUN_PLAN_QUOTAS", "free=1/day,free=2/month"],
    ["KEYRUN_PLAN_QUOTAS", "free=1000000000001/month"],
    ["KEYRUN_PLAN_QUOTAS", "constructor=1/day"],
    ["KEYRUN_LOG_LEVEL", "loud"],
    ["KEYRUN_SECRET", "x".repeat(42)],
    ["KEYRUN_SECRET", Array(9).fill(secret).join()],
    ["KEYRUN_SECRET", `${secret},`],
    ["KEYRUN_SECRET", `${secret}+/`],
    ["KEYRUN_SERVICE_TOKEN", "x".repeat(31)],
    ["KEYRUN_SERVICE_TOKEN", `${token} `],
    ["KEYRUN_MONGODB_URI", "db.internal"],
    ["KEYRUN_REDIS_URL", "redis.internal:6379"],
    ["KEYRUN_REDIS_URL", "http://redis.internal"],
    ["KEYRUN_REDIS_URL", "redis://one:6379,two:6379"],
    ["KEYRUN_REDIS_URL", "redis:///1"],
    ["KEYRUN_REDIS_URL", "redis://host/keys"],
    ["KEYRUN_REDIS_URL", "redis://host?db=1"],
    ["KEYRUN_REDIS_URL", "redis://:100%@host"],
    ["KEYRUN_REDIS_URL", "redis://user:12/34@host"],
    ["KEYRUN_REDIS_URL", "redis://user:pa/ss@host"],
    ["KEYRUN_LIMIT_FALLBACK", "allow"],
    ["KEYRUN_ADVERTISE_ADDRESS", "10.0.0.1"],
    ["KEYRUN_ADVERTISE_ADDRESS", "10.0.0.1:0"],
    ["KEYRUN_ADVERTISE_ADDRESS", "10.0.0.1:65536"],
    ["KEYRUN_ADVERTISE_ADDRESS", "fd00:10:244::5"],
    ["KEYRUN_ADVERTISE_ADDRESS", "fd00:10:244:0:0:0:0:5"],
    ["KEYRUN_ADVERTISE_ADDRESS", "[10.0.0.1]:8081"],
    ["KEYRUN_ADVERTISE_ADDRESS", "http://10.0.0.1:8081"],
    ["KEYRUN_BODY_BYTES_MAX", "16777217"],
    ["KEYRUN_DRAIN_MS_MAX", "3600001"],
  ])("%s refuses %j in one sentence that names it", (name, text) => {
    const problems = refused({
      ...(name === "KEYRUN_MONGODB_URI" && { KEYRUN_SECRET: secret }),
      ...(/REDIS|FALLBACK|ADVERTISE/.test(name) && fleet),
      [name]: text,
    });
    expect(problems).toEqual([expect.stringMatching(new RegExp(`^${name} must be .*\\.$`))]);
  });

  test.each(["X-API-Key", "api_key", "X-Content", "Bin", "X-Accept", "Authorization-Key"])(
    "KEYRUN_KEY_HEADER=%s is taken as it is written",
    (name) => {
      expect(accepted({ KEYRUN_KEY_HEADER: name }).keyHeader).toBe(name);
    },
  );

  test("an empty text is refused, so that a secret which failed to arrive is seen", () => {
    for (const { name } of entries) {
      expect(refused({ [name]: "" })[0]).toBe(`${name} is empty: give it a value, or remove it.`);
    }
  });
});

describe("names", () => {
  test("an unknown name is refused with the nearest known one", () => {
    expect(refused({ KEYRUN_MONGO_URI: "x", KEYRUN_SERVICE_TOKN_FILE: "x" })).toEqual([
      "KEYRUN_MONGO_URI is not a setting of Keyrun: did you mean KEYRUN_MONGODB_URI?",
      "KEYRUN_SERVICE_TOKN_FILE is not a setting of Keyrun: did you mean KEYRUN_SERVICE_TOKEN_FILE?",
    ]);
  });

  test("a name near to nothing gets no misleading advice", () => {
    expect(refused({ KEYRUN_X: "x" })).toEqual([
      "KEYRUN_X is not a setting of Keyrun: .env.example lists all there are.",
    ]);
  });

  test("only a secret may come from a file", () => {
    expect(refused({ KEYRUN_PORT_FILE: "x" })[0]).toContain("KEYRUN_PORT_FILE is not a setting");
  });

  test("a caller's names, those of tests and those of others are left alone", () => {
    accepted({ KEYRUN_API_KEY: "x", KEYRUN_URL: "", KEYRUN_TEST_MONGODB: "x", KEYRUNNER: "x", PATH: "x" });
  });
});

test("a body or an output that the bytes of runs have no room for is refused", () => {
  const settings = { KEYRUN_RUN_BYTES_MAX: "25165824", KEYRUN_BODY_BYTES_MAX: "2097152" };
  accepted({ ...settings, KEYRUN_APP_OUTPUT_BYTES_MAX: "2097152" });
  expect(refused({ ...settings, KEYRUN_BODY_BYTES_MAX: "2097153" })).toEqual([
    expect.stringContaining("KEYRUN_RUN_BYTES_MAX must be at least twelve times KEYRUN_BODY_BYTES_MAX"),
  ]);
  expect(refused({ ...settings, KEYRUN_APP_OUTPUT_BYTES_MAX: "16777216" })).toEqual([
    expect.stringContaining("KEYRUN_RUN_BYTES_MAX must be at least twelve times KEYRUN_APP_OUTPUT_BYTES_MAX"),
  ]);
});

/** What secrets can't be without. */
const signIn = {
  KEYRUN_SECRET: secret,
  KEYRUN_PUBLIC_URL: "https://keyrun.example.com",
  KEYRUN_OIDC_ISSUER: "https://id.example",
  KEYRUN_OIDC_CLIENT_ID: "keyrun",
  KEYRUN_OIDC_CLIENT_SECRET: secret,
};

const fleet = {
  KEYRUN_SECRET: secret,
  KEYRUN_SERVICE_TOKEN: token,
  KEYRUN_MONGODB_URI: "mongodb://db/keyrun",
  KEYRUN_REDIS_URL: "redis://redis",
};

const addresses: Record<string, string> = {
  KEYRUN_MONGODB_URI: "mongodb://db/keyrun",
  KEYRUN_REDIS_URL: "redis://:pass@redis",
};

describe("secrets", () => {
  test.each(secretEntries)("$name is read from a file, without the line's end", ({ name }) => {
    const text = addresses[name] ?? secret;
    const companions = name === "KEYRUN_REDIS_URL" ? { ...signIn, ...fleet } : signIn;
    const fromFile = accepted(
      { ...companions, ...{ [name]: undefined as unknown as string }, [`${name}_FILE`]: "there" },
      ((path: string) => (path === "there" ? `${text}\r\n` : noFiles())) as typeof noFiles,
    );
    expect(fromFile).toEqual(accepted({ ...companions, [name]: text }));
  });

  test.each(secretEntries)("$name and its file are refused together", ({ name }) => {
    const others = name === "KEYRUN_REDIS_URL" ? fleet : signIn;
    expect(refused({ ...others, [name]: secret, [`${name}_FILE`]: "there" })).toEqual([
      `${name} and ${name}_FILE are both set: keep one of them.`,
    ]);
  });

  test("a file that can't be read is told by its setting's name, never by what was written there", () => {
    const missing = (path: string) => readFileSync(path, "utf8");
    expect(refused({ KEYRUN_SECRET_FILE: secret, KEYRUN_MONGODB_URI: "mongodb://db" }, missing)).toEqual([
      "KEYRUN_SECRET_FILE must be the path of a readable file (ENOENT).",
    ]);
    expect(refused({ KEYRUN_SECRET_FILE: "there" }, () => "\n")).toEqual([
      "KEYRUN_SECRET_FILE names an empty file: write the value into it.",
    ]);
  });

  test("no problem ever holds the value of any setting, right or wrong", () => {
    const names = entries.flatMap(({ name, facts }) => (facts.secret ? [name, `${name}_FILE`] : [name]));
    const marked = fc.stringMatching(/^[\w=,.:/-]{0,20}$/).map((text) => `${text}QqZz77${text}`);
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names, "KEYRUN_NOPE"), marked), (env) => {
        const readFile = () => (Object.keys(env).length % 2 ? env.KEYRUN_SECRET_FILE! : noFiles());
        const outcome = readSettings(env, readFile);
        if ("problems" in outcome) expect(outcome.problems.join()).not.toContain("QqZz77");
      }),
      { numRuns: 500 },
    );
  });
});

describe("settings that belong together", () => {
  const tls = {
    KEYRUN_GRPC_TLS_CERT_FILE: "cert.pem",
    KEYRUN_GRPC_TLS_KEY_FILE: "key.pem",
    KEYRUN_GRPC_TLS_CLIENT_CA_FILE: "ca.pem",
  };

  test("MongoDB needs a secret of the operator's own", () => {
    expect(refused({ KEYRUN_MONGODB_URI: "mongodb://db" })).toEqual([
      expect.stringMatching(/^KEYRUN_SECRET_FILE or KEYRUN_SECRET must be set where KEYRUN_MONGODB_URI is/),
    ]);
  });

  test("Redis needs MongoDB, and a fallback needs Redis", () => {
    const redis = { KEYRUN_REDIS_URL: "redis://:QqZz77@redis" };
    expect(refused({ ...redis, KEYRUN_SERVICE_TOKEN: token })).toEqual([
      expect.stringMatching(/^KEYRUN_MONGODB_URI must be set where KEYRUN_REDIS_URL is/),
    ]);
    expect(refused({ ...redis, KEYRUN_SECRET: secret, KEYRUN_MONGODB_URI: "mongodb://db/keyrun" })).toEqual([
      expect.stringMatching(/^KEYRUN_SERVICE_TOKEN_FILE or KEYRUN_SERVICE_TOKEN must be set where/),
    ]);
    expect(refused({ KEYRUN_ADVERTISE_ADDRESS: "10.0.0.1:8081" })).toEqual([
      "KEYRUN_REDIS_URL must be set where KEYRUN_ADVERTISE_ADDRESS is, or that removed.",
    ]);
    expect(refused({ KEYRUN_LIMIT_FALLBACK: "refuse" })).toEqual([
      "KEYRUN_REDIS_URL must be set where KEYRUN_LIMIT_FALLBACK is refuse, or that removed.",
    ]);
    const url = "redis://:QqZz77@redis";
    expect(accepted({ ...fleet, ...redis }).sharedLimit).toEqual({ redisUrl: url, fallback: "share" });
  });

  test.each(["0.0.0.0", "::", "10.0.0.5", "keyrun.internal", "127.evil.example"])(
    "the internal listener leaves loopback for %s only with TLS or an explicit word",
    (host) => {
      expect(refused({ KEYRUN_GRPC_HOST: host })).toEqual([
        expect.stringContaining("KEYRUN_GRPC_PLAINTEXT=true"),
      ]);
      expect(refused({ KEYRUN_GRPC_HOST: host, KEYRUN_GRPC_PLAINTEXT: "false" })).toHaveLength(1);
      accepted({ KEYRUN_GRPC_HOST: host, KEYRUN_GRPC_PLAINTEXT: "true" });
      accepted({ KEYRUN_GRPC_HOST: host, ...tls });
    },
  );

  test.each(["127.0.0.1", "127.9.9.9", "::1", "localhost"])("loopback %s needs neither", (host) => {
    accepted({ KEYRUN_GRPC_HOST: host });
  });

  test("TLS takes all three files or none, and not with plaintext", () => {
    expect(refused({ KEYRUN_GRPC_TLS_CERT_FILE: "cert.pem" })).toEqual([
      "KEYRUN_GRPC_TLS_KEY_FILE and KEYRUN_GRPC_TLS_CLIENT_CA_FILE must be set too: TLS takes all three files, or none.",
    ]);
    expect(refused({ ...tls, KEYRUN_GRPC_PLAINTEXT: "true" })).toHaveLength(1);
  });

  test("two listeners on one host and port are refused, but for free ones", () => {
    expect(refused({ KEYRUN_PORT: "9000", KEYRUN_GRPC_PORT: "9000" })).toHaveLength(1);
    expect(refused({ KEYRUN_PORT: "8081" })).toHaveLength(1);
    accepted({ KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0" });
    accepted({ KEYRUN_PORT: "9000", KEYRUN_GRPC_PORT: "9000", KEYRUN_HOST: "::1" });
  });

  test("behind a proxy no connection is refused for its address, which is the proxy's", () => {
    expect(accepted({ KEYRUN_TRUST_PROXY: "1" }).connectionsPerAddressMax).toBeUndefined();
  });
});

test("all problems are told at once, whatever kind they are", () => {
  const problems = refused({
    KEYRUN_PORT: "eighty",
    KEYRUN_PROT: "80",
    KEYRUN_MONGODB_URI: "mongodb://db",
    KEYRUN_SERVICE_TOKEN_FILE: "nowhere",
    KEYRUN_GRPC_HOST: "0.0.0.0",
  });
  expect(problems.map((problem) => problem.split(" ")[0]).sort()).toEqual([
    "KEYRUN_GRPC_HOST",
    "KEYRUN_PORT",
    "KEYRUN_PROT",
    "KEYRUN_SECRET_FILE",
    "KEYRUN_SERVICE_TOKEN_FILE",
  ]);
});
