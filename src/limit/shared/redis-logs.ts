import type { Clock } from "../../base/clock.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import type { LimitTimers } from "./limit-timers.ts";
import { redisBounds } from "./redis-bounds.ts";
import { createRedisClient, type RedisClient } from "./redis-client.ts";
import { type FleetOfRedis, keepRedis, markScript, takeRedis } from "./redis-mark.ts";
import { RedisTrouble, troubleOf, unfitWords } from "./redis-trouble.ts";
import { createServerClock } from "./server-clock.ts";
import type { Ask, SharedLogs } from "./shared-logs.ts";
import { readSpendReply, spendArguments, spendScript } from "./spend-script.ts";

export interface RedisLogsParts {
  /** May hold a password, so it never appears in a message. */
  readonly redisUrl: string;
  readonly fleet: FleetOfRedis;
  readonly clock: Clock;
  readonly timers: LimitTimers;
  readonly windowMs: number;
  /** How long the opening may take, all of it. */
  readonly openMsMax: number;
  /** Called at most once, when the opened connection ends by itself. */
  readonly lost: (cause: unknown) => void;
}

/**
 * Opens a connection to Redis, and proves by a write that it is of use: a replica still answers
 * what only reads. Rejects with StartRefused, in words, where this Redis must not be used, and with
 * RedisTrouble where it can't be reached, or is not that of the fleet.
 */
export async function openRedisLogs(parts: RedisLogsParts): Promise<SharedLogs> {
  const client = createRedisClient(parts);
  let isDone = false;
  let looking: { cancel(): void } | undefined;
  const drop = () => {
    if (!isDone) parts.fleet.onMark(undefined);
    isDone = true;
    looking?.cancel();
    client.destroy();
  };
  // A connection that comes after the end of its time is not known to `destroy` before.
  client.on("connect", () => isDone && client.destroy());
  client.on("error", () => {});
  const late = Promise.withResolvers<never>();
  const timer = parts.timers.after(parts.openMsMax, () =>
    parts.timers.soon(() => late.reject(new RedisTrouble(`silent for ${parts.openMsMax} ms`))),
  );
  try {
    const opening = prepare(client, parts);
    opening.catch(() => {});
    const { scriptSha, serverUs, mark } = await Promise.race([opening, late.promise]);
    const fail = (cause: unknown) => {
      if (!isDone) parts.lost(troubleOf(cause));
      drop();
    };
    client.on("terminated", fail);
    if (!client.isReady) throw new RedisTrouble("closed");
    const look = (known: string) => {
      if (isDone) return;
      parts.fleet.onMark(known);
      looking = parts.timers.after(redisBounds.fleetMarkLookMs, () => {
        keepRedis(markScriptOn(client), parts.fleet, known).then(look, fail);
      });
    };
    look(mark);
    return logsOf(client, parts, { scriptSha, serverUs, drop });
  } catch (thrown) {
    drop();
    throw thrown instanceof StartRefused ? thrown : troubleOf(thrown);
  } finally {
    timer.cancel();
  }
}

const markScriptOn = (client: RedisClient) => (words: readonly string[]) =>
  client.sendCommand(["EVAL", markScript, ...words]);

async function prepare(client: RedisClient, { fleet }: RedisLogsParts) {
  await client.connect();
  const info = client.sendCommand<string>(["INFO"]);
  const rest = Promise.all([
    client.sendCommand<string>(["SCRIPT", "LOAD", spendScript]),
    client.sendCommand<[string, string]>(["TIME"]),
    client.sendCommand(["SET", "keyrun:probe", "1", "PX", "1000"]),
  ]);
  // What makes a Redis unfit also makes other commands fail, in worse words.
  rest.catch(() => {});
  const unfit = unfitWords(await info);
  if (unfit !== undefined) throw new StartRefused(unfit);
  const [scriptSha, [seconds, microseconds]] = await rest;
  const mark = await takeRedis(markScriptOn(client), fleet);
  return { scriptSha, mark, serverUs: Number(seconds) * 1_000_000 + Number(microseconds) };
}

function logsOf(
  client: RedisClient,
  { clock, windowMs, fleet: { id: fleetId } }: RedisLogsParts,
  { scriptSha, serverUs, drop }: { scriptSha: string; serverUs: number; drop: () => void },
): SharedLogs {
  const serverClock = createServerClock(clock, serverUs);

  async function call(asks: readonly Ask[], giveUpMs: number) {
    const words = spendArguments(asks, { fleetId, windowMs, deadlineUs: serverClock.atUs(giveUpMs) });
    const reply = await client.sendCommand(["EVALSHA", scriptSha, ...words]).catch((thrown: unknown) => {
      // Someone has flushed the scripts. Then nothing was run.
      if (!/^NOSCRIPT/.test(String(thrown instanceof Error && thrown.message))) throw thrown;
      return client.sendCommand(["EVAL", spendScript, ...words]);
    });
    return readSpendReply(reply, asks);
  }

  async function spend(asks: readonly Ask[], giveUpMs: number) {
    const { serverUs: nowUs, answers } = await call(asks, giveUpMs);
    serverClock.learn(nowUs);
    return answers;
  }

  return {
    spend: (asks, giveUpMs) =>
      spend(asks, giveUpMs).catch((thrown: unknown) => {
        throw troubleOf(thrown);
      }),
    close: drop,
  };
}
