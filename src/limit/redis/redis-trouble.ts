import { innermostCause } from "../../base/innermost-cause.ts";

/** What went wrong with Redis, in words without the URL: that may hold a password. */
export class RedisTrouble extends Error {
  override readonly name = "RedisTrouble";
}

/** This Redis must not be used, whatever it answers: it is not that of this fleet. */
export class ForeignRedis extends RedisTrouble {}

/**
 * The trouble without anything that may hold a secret: the code of Redis' refusal (READONLY, OOM,
 * WRONGPASS), the words of the system (`connect ECONNREFUSED 127.0.0.1:6379`), or else the name of
 * the error.
 */
export function troubleOf(thrown: unknown): RedisTrouble {
  if (thrown instanceof RedisTrouble) return thrown;
  return new RedisTrouble(thrown instanceof Error ? codeOf(thrown) : "unknown");
}

function codeOf(error: Error): string {
  const isOfSystem = "code" in error && typeof error.code === "string";
  if (isOfSystem || error instanceof AggregateError || error.cause instanceof Error) {
    return innermostCause(error);
  }
  // A password for a Redis that has none.
  if (/^ERR AUTH /.test(error.message)) return "WRONGPASS";
  return /^[A-Z]{2,}(?= )/.exec(error.message)?.[0] ?? error.constructor.name;
}

/** Why a start with this Redis is refused after this trouble; undefined where a retry may help. */
export function refusalWords(trouble: RedisTrouble): string | undefined {
  const { message } = trouble;
  if (trouble instanceof ForeignRedis) return `Keyrun can't use the Redis of KEYRUN_REDIS_URL: ${message}.`;
  return wordsOf[message];
}

const badLogin = "Redis refuses Keyrun's user or password: check those in KEYRUN_REDIS_URL.";

const wordsOf: Readonly<Record<string, string>> = {
  WRONGPASS: badLogin,
  NOAUTH: badLogin,
  NOPERM:
    "Redis allows Keyrun's user too little: it needs the keys `keyrun:*` and the commands SET, INFO, TIME, SCRIPT LOAD, EVAL, EVALSHA and those on lists, and PEXPIRE.",
  READONLY: "The Redis of KEYRUN_REDIS_URL is a read-only replica: name its primary.",
  OOM: "The Redis of KEYRUN_REDIS_URL is out of memory: give it more, and start again.",
};

/** Why this Redis must not be used, from its INFO; undefined where it may be. */
export function unfitWords(info: string): string | undefined {
  const facts = new Map(info.split("\r\n").map((line) => line.split(":", 2) as [string, string]));
  if (facts.get("cluster_enabled") === "1" || facts.get("redis_mode") === "cluster") {
    return "The Redis of KEYRUN_REDIS_URL is a Redis Cluster, where one call can't count several teams. Use one primary, with replicas if you like.";
  }
  const policy = facts.get("maxmemory_policy");
  if (policy !== undefined && policy !== "noeviction") {
    return `The Redis of KEYRUN_REDIS_URL has the maxmemory-policy ${policy}, so it may drop counted requests without a word. Set maxmemory-policy to noeviction.`;
  }
  return undefined;
}
