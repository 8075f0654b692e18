import { isLoopbackHost } from "./host.ts";

const tlsNames = [
  "KEYRUN_GRPC_TLS_CERT_FILE",
  "KEYRUN_GRPC_TLS_KEY_FILE",
  "KEYRUN_GRPC_TLS_CLIENT_CA_FILE",
] as const;

/**
 * Problems between settings that may each be valid alone, one sentence each. `textOf` gives a
 * setting's text, else its default, else undefined. It gives text, not parsed values, so that
 * these problems are reported even if another setting can't be parsed.
 */
export function contradictions(textOf: (name: string) => string | undefined): string[] {
  return [
    ...tlsProblems(textOf),
    ...signInProblems(textOf),
    ...storeProblems(textOf),
    ...sharedLimitProblems(textOf),
    ...portProblems(textOf),
    ...bytesProblems(textOf),
  ];
}

function tlsProblems(textOf: (name: string) => string | undefined): string[] {
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
function signInProblems(textOf: (name: string) => string | undefined): string[] {
  if (oidcNames.every((name) => textOf(name) === undefined)) return [];
  const missing = [...oidcNames, "KEYRUN_PUBLIC_URL"].filter((name) => textOf(name) === undefined);
  if (missing.length === 0) return [];
  return [
    `${missing.join(" and ")} must be set too: sign-in with OpenID Connect takes ${oidcNames.join(", ")} and KEYRUN_PUBLIC_URL.`,
  ];
}

function storeProblems(textOf: (name: string) => string | undefined): string[] {
  if (textOf("KEYRUN_MONGODB_URI") === undefined || textOf("KEYRUN_SECRET") !== undefined) return [];
  return [
    "KEYRUN_SECRET_FILE or KEYRUN_SECRET must be set where KEYRUN_MONGODB_URI is: a secret made in the data folder could be lost, and every key with it. `(umask 077; set -C; openssl rand -hex 32 > keyrun-secret)` makes a file for KEYRUN_SECRET_FILE.",
  ];
}

function sharedLimitProblems(textOf: (name: string) => string | undefined): string[] {
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

function portProblems(textOf: (name: string) => string | undefined): string[] {
  const port = textOf("KEYRUN_PORT");
  const collides =
    port !== "0" &&
    port === textOf("KEYRUN_GRPC_PORT") &&
    textOf("KEYRUN_HOST") === textOf("KEYRUN_GRPC_HOST");
  return collides ? ["KEYRUN_PORT and KEYRUN_GRPC_PORT must differ where the hosts are the same."] : [];
}

/**
 * While other teams run apps, a team has a quarter of the bytes of all runs, and a call of an app
 * over gRPC takes twice its body.
 */
function bytesProblems(textOf: (name: string) => string | undefined): string[] {
  const runBytesMax = textOf("KEYRUN_RUN_BYTES_MAX");
  if (runBytesMax === undefined) return [];
  return ["KEYRUN_BODY_BYTES_MAX", "KEYRUN_APP_OUTPUT_BYTES_MAX"]
    .filter((name) => 8 * Number(textOf(name)) > Number(runBytesMax))
    .map(
      (name) =>
        `KEYRUN_RUN_BYTES_MAX must be at least eight times ${name}: a team gets a quarter of it, and a run may hold its body twice.`,
    );
}
