/**
 * `limit`: what is left of a key's limits. A service may ask without taking one; a key itself
 * learns it from the headers of an answer, to a request that takes one.
 */

import type { QuotaJson } from "#gen/keyrun/v1/quota_pb.ts";
import type { RateLimitJson } from "#gen/keyrun/v1/rate_limit_pb.ts";
import { systemClock } from "../base/clock.ts";
import { periodOf } from "../quota/quota.ts";
import { CommandFailure, isCallError } from "./failures.ts";
import { readKey as findKey } from "./key-name.ts";
import { accepted, openPublicApi, readKey } from "./public-api.ts";
import { periodWord } from "./quota-words.ts";
import { printTable } from "./table.ts";
import { answer, type CliWorld, type JsonOption, type Terminal } from "./terminal.ts";

/** A request that every key may make: its answer tells the limits, and it takes one. */
const request = { method: "GET", path: "/api/runs?page_size=1" } as const;

/** One limit, as `--json` prints it. */
interface LimitLeft {
  /** Whose limit it is, and the period if it is a quota: `key`, `team-month`. */
  readonly name: string;
  readonly limit: number;
  readonly windowSeconds: number;
  /** After the request that asked, if there was one. */
  readonly remaining: number;
  /** In so many seconds one more is left. */
  readonly resetSeconds: number;
}

/**
 * Prints the limits and the quotas of the team and of the key, as far as they have one. A service
 * learns the key's limit where that is the tighter one.
 */
export async function showLimit(world: CliWorld, terminal: Terminal, options: JsonOption): Promise<void> {
  const limits = (await limitsOfService(world, terminal)) ?? (await limitsOfKey(world));
  const rows = limits.map(({ name, limit, remaining, resetSeconds }) => {
    const [subject = "", period = "minute"] = name.split("-");
    const wait = resetSeconds < 7_200 ? `${resetSeconds} s` : `${Math.ceil(resetSeconds / 3_600)} h`;
    return { cells: [subject, String(limit), period, String(remaining), wait] };
  });
  const columns = ["LIMIT OF", "REQUESTS", "IN A", "LEFT", "MORE IN"].map((head) => ({ head }));
  await answer(terminal, options, { limits }, () => printTable(terminal, columns, rows));
}

/**
 * Takes nothing. Undefined where there is no service token for this, where the key is refused, and
 * where KEYRUN_URL names a Keyrun: the token may be another's.
 */
async function limitsOfService(world: CliWorld, terminal: Terminal): Promise<LimitLeft[] | undefined> {
  const value = readKey(world.env);
  if (world.env.KEYRUN_URL !== undefined) return undefined;
  try {
    const { keys, teams } = await terminal.server();
    const { rateLimit: tighter, teamId = "", keyId = "" } = await keys.verifyKey({ value, cost: 0 });
    if (tighter === undefined) return undefined;
    const { rateLimit: team = tighter, quota } = await teams.getRateLimit({ teamId });
    const key = await findKey(terminal, { teamId, keyId });
    const limits = [limitLeft("team", team)];
    if (tighter.limit !== team.limit) limits.push(limitLeft("key", tighter));
    if (quota) limits.push(quotaLeft("team", quota));
    if (key.quota) limits.push(quotaLeft("key", key.quota));
    return limits;
  } catch (error) {
    if (error instanceof CommandFailure || isCallError(error)) return undefined;
    throw error;
  }
}

/** Requests are counted for a minute. */
const windowSeconds = 60;

function limitLeft(name: string, { limit = 0, remaining = 0, resetTime = "" }: RateLimitJson): LimitLeft {
  const seconds = Math.ceil((Date.parse(resetTime) - systemClock.unixMs()) / 1_000);
  const resetSeconds = Math.min(Math.max(seconds, 0), windowSeconds);
  return { name, limit, windowSeconds, remaining, resetSeconds };
}

function quotaLeft(subject: string, quota: QuotaJson): LimitLeft {
  const { limit, granted = "0", used = "0", resetTime = "" } = quota;
  const period = periodWord(quota);
  const { startMs, endMs } = periodOf(period, Date.parse(resetTime) - 1);
  const total = Number(limit) + Number(granted);
  return {
    name: `${subject}-${period}`,
    limit: total,
    windowSeconds: (endMs - startMs) / 1_000,
    remaining: Math.max(total - Number(used), 0),
    resetSeconds: Math.max(Math.ceil((endMs - systemClock.unixMs()) / 1_000), 0),
  };
}

async function limitsOfKey(world: CliWorld): Promise<LimitLeft[]> {
  const told = await openPublicApi(world).ask(request);
  const { ratelimit: left = "", "ratelimit-policy": policy = "" } = told.headers;
  const limits = readLimits(String(left), String(policy));
  // What is refused before the limit, as an unknown key is, tells none, or that of an address.
  if (limits.length === 0) {
    accepted(told);
    throw new CommandFailure("The answer says nothing of a limit: check KEYRUN_URL.");
  }
  return limits;
}

/** The items of `RateLimit`, each with its one of `RateLimit-Policy`. */
function readLimits(left: string, policy: string): LimitLeft[] {
  const policies = new Map(
    [...policy.matchAll(/"([\w-]+)";q=(\d+);w=(\d+)/g)].map((found) => [found[1], found]),
  );
  return [...left.matchAll(/"((?:team|key)(?:-\w+)?)";r=(\d+);t=(\d+)/g)].map(
    ([, name = "", remaining, reset]) => {
      const [, , limit, window] = policies.get(name) ?? [];
      return {
        name,
        limit: Number(limit),
        windowSeconds: Number(window),
        remaining: Number(remaining),
        resetSeconds: Number(reset),
      };
    },
  );
}
