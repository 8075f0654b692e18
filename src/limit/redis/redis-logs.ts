import { createClient } from "redis";
import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { StartRefused } from "../../refusal/start-refused.ts";
import { type FleetOfRedis, keepRedis, takeRedis } from "./redis-mark.ts";
import { RedisTrouble, troubleOf, unfitWords } from "./redis-trouble.ts";
import type { SharedLogs } from "./shared-logs.ts";
import { readSpendReply, spendArguments, spendScript } from "./spend-script.ts";
import type { LimitTimers } from "./timers.ts";

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
  const { fleet, timers, openMsMax } = parts;
  const client = createRedisClient(parts);
  let isDone = false;
  let look: { cancel(): void } | undefined;
  const drop = () => {
    if (!isDone) fleet.onMark(undefined);
    isDone = true;
    look?.cancel();
    client.destroy();
  };
  const fail = (cause: unknown) => {
    if (!isDone) parts.lost(troubleOf(cause));
    drop();
  };
  const lookLater = (mark: string) => {
    if (isDone) return;
    fleet.onMark(mark);
    const again = () => void keepRedis(markScriptOn(client), fleet, mark).then(lookLater, fail);
    look = timers.after(bounds.fleetMarkLookMs, again);
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
    lookLater(mark);
    return { spend: createSpend(client, parts, { scriptSha, serverUs }), close: drop };
  } catch (thrown) {
    drop();
    throw thrown instanceof StartRefused ? thrown : troubleOf(thrown);
  } finally {
    timer.cancel();
  }
}

type RedisClient = ReturnType<typeof createRedisClient>;

/** Its own queues, retries and timeouts are off: a call is bounded by its caller. */
function createRedisClient({ redisUrl, openMsMax }: RedisLogsParts) {
  return createClient({
    url: redisUrl,
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
  const mark = await takeRedis(markScriptOn(client), fleet);
  return { scriptSha, mark, serverUs: Number(seconds) * 1_000_000 + Number(microseconds) };
}

const markScriptOn = (client: RedisClient) => (words: readonly string[]) =>
  client.sendCommand(["EVAL", ...words]);

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
 * What is known of the clock of a server, from the times that it told. An answer is read some time
 * after the server wrote its time into it. So each bounds the server's clock from below, and the
 * answer that travelled fastest bounds it best.
 */
export function createServerClock(clock: Clock, serverUs: number) {
  const offset = (us: number) => us - clock.monotonicMs() * 1_000;
  let [newest, older] = [offset(serverUs), offset(serverUs)];
  let generationMs = clock.monotonicMs();
  return {
    /** The server told this time, and it was read just now. */
    learn(us: number): void {
      const isOld = clock.monotonicMs() >= generationMs + 10_000;
      if (isOld) [older, generationMs] = [newest, clock.monotonicMs()];
      newest = isOld ? offset(us) : Math.max(newest, offset(us));
    },
    /**
     * The server's time in microseconds at this moment of the monotonic clock. Never later than the
     * true one, except for what the two clocks drift apart in 20 s.
     */
    atUs: (monotonicMs: number) => Math.max(newest, older) + monotonicMs * 1_000,
  };
}
