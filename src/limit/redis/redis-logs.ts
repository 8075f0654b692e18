import { createClient } from "redis";
import type { Clock } from "../../base/clock.ts";
import { trustSystemRoots } from "../../base/trusted-roots.ts";
import { bounds } from "../../bounds.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import type { LimitTimers } from "../timers.ts";
import { ForeignRedis, RedisTrouble, troubleOf, unfitWords } from "./redis-trouble.ts";
import type { SharedLogs } from "./shared-logs.ts";
import { readSpendReply, spendArguments, spendScript } from "./spend-script.ts";

/**
 * Opens a connection to Redis, and proves by a write that it is of use: a replica still answers
 * what only reads. `lost` is called at most once, when the opened connection ends by itself.
 * Rejects within `openMsMax`: with StartRefused, in words, where this Redis must not be used, and
 * with RedisTrouble where it can't be reached, or is not that of the fleet.
 */
export async function openRedisLogs(
  parts: RedisLogsParts,
  openMsMax: number,
  lost: (cause: unknown) => void,
): Promise<SharedLogs> {
  const { fleet, timers } = parts;
  const client = createRedisClient(parts.redisUrl, openMsMax);
  let isDone = false;
  let nextCheck: { cancel(): void } | undefined;
  const drop = () => {
    if (!isDone) fleet.onMark(undefined);
    isDone = true;
    nextCheck?.cancel();
    client.destroy();
  };
  const fail = (cause: unknown) => {
    if (!isDone) lost(troubleOf(cause));
    drop();
  };
  const checkLater = (mark: string) => {
    if (isDone) return;
    fleet.onMark(mark);
    const again = () => void markRedis(client, fleet, mark).then(checkLater, fail);
    nextCheck = timers.after(bounds.fleetMarkCheckMs, again);
  };
  // A connection that comes after the end of its time is not known to `destroy` before.
  client.on("connect", () => isDone && client.destroy());
  client.on("error", () => {});
  const late = Promise.withResolvers<never>();
  const tooLate = () => late.reject(new RedisTrouble(`silent for ${openMsMax} ms`));
  const timer = timers.after(openMsMax, () => timers.soon(tooLate));
  try {
    const opening = prepare(client, fleet);
    opening.catch(() => {});
    const { scriptSha, serverUs, mark } = await Promise.race([opening, late.promise]);
    client.on("terminated", fail);
    if (!client.isReady) throw new RedisTrouble("closed");
    checkLater(mark);
    return { spend: createSpend(client, parts, { scriptSha, serverUs }), close: drop };
  } catch (thrown) {
    drop();
    throw thrown instanceof StartRefused ? thrown : troubleOf(thrown);
  } finally {
    timer.cancel();
  }
}

export interface RedisLogsParts {
  /** May hold a password, so it never appears in a message. */
  readonly redisUrl: string;
  readonly fleet: FleetOfRedis;
  readonly clock: Clock;
  readonly timers: LimitTimers;
  readonly windowMs: number;
}

/**
 * How an instance recognizes the Redis of its fleet. The id of the fleet and a random mark are
 * stored in Redis. Two Redises of one fleet have different marks. Both lapse a minute after the
 * last instance has left, so that the Redis is free for another fleet.
 */
export interface FleetOfRedis {
  /** The id of the fleet, from its store. It is part of every key. */
  readonly id: string;
  /** It has no space. "" writes none, and only reads the mark. */
  readonly newMark: () => string;
  /**
   * The marks of the Redises in which the other instances share limits now: of all of them, or of
   * those that joined before this one.
   */
  readonly marksOf: (others: "all" | "earlier") => readonly string[];
  /** Called with the mark of the Redis in use; undefined: none is in use any more. */
  readonly onMark: (mark: string | undefined) => void;
}

type RedisClient = ReturnType<typeof createRedisClient>;

/** Its own queues, retries and timeouts are off: a call is bounded by its caller. */
function createRedisClient(url: string, openMsMax: number) {
  if (url.startsWith("rediss:")) trustSystemRoots();
  return createClient({
    url,
    RESP: 2,
    maintNotifications: "disabled",
    disableClientInfo: true,
    disableOfflineQueue: true,
    socket: { connectTimeout: openMsMax, reconnectStrategy: false },
  });
}

async function prepare(client: RedisClient, fleet: FleetOfRedis) {
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
  const mark = await markRedis(client, fleet);
  return { scriptSha, mark, serverUs: Number(seconds) * 1_000_000 + Number(microseconds) };
}

/**
 * The fleet's mark in this Redis; "" where there is none and none is written. An empty Redis gets a
 * new one, unless others share limits elsewhere: then it is another. On a connection that has not
 * ended it is the same Redis, which gets its `known` mark again if somebody has emptied it; of two
 * instances with two Redises, the later one yields. Rejects with ForeignRedis where this Redis must
 * not be used.
 */
async function markRedis(client: RedisClient, fleet: FleetOfRedis, known?: string): Promise<string> {
  const given = known ?? (fleet.marksOf("all").length === 0 ? fleet.newMark() : "");
  const words = ["1", "keyrun:fleet", fleet.id, given, String(bounds.fleetMarkMs)];
  const answer: unknown = await client.sendCommand(["EVAL", markScript, ...words]);
  const [holder = fleet.id, mark = known ?? ""] = typeof answer === "string" ? answer.split(" ") : [];
  if (holder !== fleet.id) {
    throw new ForeignRedis(
      `it is in use by another fleet, of id ${holder}, and this one has id ${fleet.id}. Give each fleet a Redis of its own. It is free a minute after the other fleet has left it`,
    );
  }
  if (fleet.marksOf(known === undefined ? "all" : "earlier").some((other) => other !== mark)) {
    throw new ForeignRedis(
      "it is another Redis than the one in which the other instances of this fleet share limits. Give all of them the same KEYRUN_REDIS_URL",
    );
  }
  return mark;
}

/**
 * Returns what is stored in a key that the instances keep alive. It uses commands on lists, so that
 * Keyrun's user in Redis needs no others.
 */
const markScript = `
local found = redis.call('LINDEX', KEYS[1], 0)
if not found and ARGV[2] ~= '' then
  found = ARGV[1] .. ' ' .. ARGV[2]
  redis.call('RPUSH', KEYS[1], found)
end
local own = ARGV[1] .. ' '
if found and string.sub(found, 1, #own) == own then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return found
`;

function createSpend(
  client: RedisClient,
  { clock, windowMs, fleet: { id: fleetId } }: RedisLogsParts,
  { scriptSha, serverUs }: { readonly scriptSha: string; readonly serverUs: number },
): SharedLogs["spend"] {
  const serverClock = createServerClock(clock, serverUs);
  return async (asks, giveUpMs) => {
    try {
      const words = spendArguments(asks, { fleetId, windowMs, deadlineUs: serverClock.atUs(giveUpMs) });
      const reply = await client.sendCommand(["EVALSHA", scriptSha, ...words]).catch((thrown: unknown) => {
        // Someone has flushed the scripts. Then nothing was run.
        if (!/^NOSCRIPT/.test(String(thrown instanceof Error && thrown.message))) throw thrown;
        return client.sendCommand(["EVAL", spendScript, ...words]);
      });
      const { serverUs: nowUs, answers } = readSpendReply(reply, asks);
      serverClock.learn(nowUs);
      return answers;
    } catch (thrown) {
      throw troubleOf(thrown);
    }
  };
}

/**
 * What is known of the clock of a server, from the times in its answers. An answer is read some
 * time after the server wrote its time into it. So each bounds the server's clock from below, and
 * the answer that travelled fastest bounds it best.
 */
export function createServerClock(clock: Clock, serverUs: number) {
  const offset = (us: number) => us - clock.monotonicMs() * 1_000;
  let [newest, older] = [offset(serverUs), offset(serverUs)];
  let generationMs = clock.monotonicMs();
  return {
    /** The server wrote this time into an answer that was read just now. */
    learn(us: number): void {
      const isOld = clock.monotonicMs() >= generationMs + 10_000;
      if (isOld) [older, generationMs] = [newest, clock.monotonicMs()];
      newest = isOld ? offset(us) : Math.max(newest, offset(us));
    },
    /**
     * The server's time in microseconds at this time of the monotonic clock. Never later than the
     * true one, except for what the two clocks drift apart in 20 s.
     */
    atUs: (monotonicMs: number) => Math.max(newest, older) + monotonicMs * 1_000,
  };
}
