import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { keyLogId, ownerOfLog } from "../key-limit.ts";
import { newestAge } from "../moments.ts";
import { type SavedWindow, wallClockTickMs } from "../saved-window.ts";
import { readLogScript, writeLogScript } from "./carry-scripts.ts";
import { systemLimitTimers } from "./limit-timers.ts";
import { redisBounds } from "./redis-bounds.ts";
import { createRedisClient } from "./redis-client.ts";
import { ownerOfRedisKey, redisKeyOf, redisKeysPattern } from "./redis-keys.ts";
import { RedisTrouble, troubleOf } from "./redis-trouble.ts";

export interface CarriedWindowParts {
  /** May hold a password, so it never appears in a message. */
  readonly redisUrl: string;
  /** The id of the fleet whose logs are meant. */
  readonly fleetId: string;
  readonly clock: Clock;
  readonly windowMs: number;
}

/**
 * Carries the requests that count between Redis and a process that counts alone. Both reject with
 * RedisTrouble where Redis can't be used, is silent for `carriedWindowSilenceMsMax`, or needs more
 * than `carriedWindowMsMax`.
 */
export interface CarriedWindow {
  /**
   * What counts in Redis. Requests that are spent meanwhile may be missing. Logs that are read
   * after there is no more room in a store are left out.
   */
  save(): Promise<SavedWindow>;
  /**
   * Counts in Redis what was saved, as `Limiter.restore` does. Where a log is there, the nth
   * newest request becomes the newer of both, so repeating it changes nothing. What a fleet saved
   * is in such a log already: that is kept as it is.
   */
  restore(saved: SavedWindow): Promise<void>;
}

export function createCarriedWindow(parts: CarriedWindowParts): CarriedWindow {
  const { clock, windowMs, fleetId } = parts;
  const keyOf = (logId: string) => redisKeyOf(fleetId, ownerOfLog(logId));
  const windowUs = String(windowMs * 1_000);
  return {
    save: () =>
      withRedis(parts, async (call) => {
        const logs: { readonly id: string; readonly moments: number[] }[] = [];
        let numbers = 0;
        for await (const ids of logIdsOf(call, fleetId)) {
          for (const id of ids) {
            // One at a time: the other instances wait for Redis meanwhile.
            const moments = await call(["EVAL", readLogScript, "1", keyOf(id), windowUs]);
            if (!areNumbers(moments)) throw new RedisTrouble("a log that is no list of numbers");
            if (moments.length > 0) logs.push({ id, moments });
            numbers += moments.length;
          }
          if (numbers > numbersMax) break;
        }
        // The log that accepted something last comes first.
        logs.sort((one, other) => newestAge(one.moments) - newestAge(other.moments));
        // Read after the ages, so that no request gets older than it is.
        return { savedUnixMs: clock.unixMs(), isShared: true, logs };
      }),
    restore: ({ savedUnixMs, isShared, logs }) =>
      withRedis(parts, async (call) => {
        for (const { id, moments } of logs) {
          const laterMs = Math.max(0, clock.unixMs() - savedUnixMs - wallClockTickMs);
          const words = [windowUs, String(Math.floor(laterMs * 1_000)), isShared ? "keep" : "merge"];
          await call(["EVAL", writeLogScript, "1", keyOf(id), ...words, ...moments.map(String)]);
        }
      }),
  };
}

/** More than a store has room for: a moment is written with five characters or more. */
const numbersMax = (bounds.savedPagesMax * bounds.savedPageCharactersMax * 2) / 5;

/** The ids of the logs of teams and keys, each once, some at a time. */
async function* logIdsOf(call: Call, fleetId: string): AsyncGenerator<readonly string[]> {
  const seen = new Set<string>();
  let cursor = "0";
  do {
    const words = ["SCAN", cursor, "MATCH", redisKeysPattern(fleetId), "COUNT", "100"];
    const [next, keys] = await call<[string, string[]]>(words);
    const ids = keys.map(logIdOf).filter((id) => id !== "" && !seen.has(id));
    for (const id of ids) seen.add(id);
    yield ids;
    cursor = next;
  } while (cursor !== "0");
}

/** Empty where the name is not that of a log. */
function logIdOf(name: string): string {
  const owner = ownerOfRedisKey(name);
  if (owner === undefined) return "";
  return owner.firstKeyId === undefined ? owner.teamId : keyLogId(owner.teamId, owner.firstKeyId);
}

function areNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((one) => typeof one === "number");
}

type Call = <T = unknown>(words: string[]) => Promise<T>;

/** On a connection of its own, which ends with the work. */
async function withRedis<T>({ redisUrl }: CarriedWindowParts, work: (call: Call) => Promise<T>): Promise<T> {
  const { carriedWindowMsMax: msMax, carriedWindowSilenceMsMax: silenceMsMax } = redisBounds;
  const client = createRedisClient({ redisUrl, openMsMax: silenceMsMax });
  let isDone = false;
  // A connection that comes after the end of its time is not known to `destroy` before.
  client.on("connect", () => isDone && client.destroy());
  client.on("error", () => {});
  const late = Promise.withResolvers<never>();
  const within = (ms: number, words: string) =>
    systemLimitTimers.after(ms, () => late.reject(new RedisTrouble(`${words} ${ms} ms`)));
  const whole = within(msMax, "not done within");
  let silence = within(silenceMsMax, "silent for");
  const call = async <Answer>(words: string[]) => {
    const answer = await client.sendCommand<Answer>(words);
    silence.cancel();
    silence = within(silenceMsMax, "silent for");
    return answer;
  };
  const working = client.connect().then(() => work(call));
  working.catch(() => {});
  try {
    return await Promise.race([working, late.promise]);
  } catch (thrown) {
    throw troubleOf(thrown);
  } finally {
    whole.cancel();
    silence.cancel();
    isDone = true;
    client.destroy();
  }
}
