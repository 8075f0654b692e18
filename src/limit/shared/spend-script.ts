import { redisKeyOf } from "./redis-keys.ts";
import type { Answer, Ask, LogState } from "./shared-logs.ts";

/**
 * The exact sliding log of each team in Redis: a list of the times of accepted requests in
 * microseconds, oldest first. It decides as `SlidingLog` does, for many asks in one step. A key
 * with a limit of its own has such a log too, under the tag of its team, and a spend is taken from
 * both or from neither.
 *
 * KEYS: the log of each ask's team, and after it that of its key where it has one. ARGV: the
 * window, the time after which nothing is spent, then limit, cost, count and the key's limit (0: it
 * has none) of each ask. All times are microseconds of the server's clock.
 * Returns that clock, and after it four numbers for each ask, and three more for one with a key;
 * the clock alone if it is too late.
 */
export const spendScript = `
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
if clock > tonumber(ARGV[2]) then return {clock} end
local window = tonumber(ARGV[1])
local answers = {clock}

-- How many of the oldest have left the window, and the time of the next one, if there is one.
local function findOldest(key, length, now)
  if length == 0 then return 0, now end
  local first = tonumber(redis.call('LINDEX', key, 0))
  if first + window > now then return 0, first end
  local low, high = 1, length
  while low < high do
    local middle = math.floor((low + high) / 2)
    if tonumber(redis.call('LINDEX', key, middle)) + window > now then high = middle else low = middle + 1 end
  end
  return low, low < length and tonumber(redis.call('LINDEX', key, low)) or now
end

-- The length of a log, and a time that is not before its newest: a clock that was set back counts
-- as standing still.
local function lengthAndTime(key, now)
  local length = redis.call('LLEN', key)
  if length == 0 then return 0, now end
  return length, math.max(now, tonumber(redis.call('LINDEX', key, -1)))
end

local function roomFor(wanted, cost, left)
  return math.max(0, math.min(wanted, math.floor(left / cost)))
end

-- How long a spend waits for the entry that must leave: one of the log, or one appended now.
local function waitFor(excess, key, gone, count, now)
  if excess <= 0 then return 0 end
  local last = excess <= count and tonumber(redis.call('LINDEX', key, gone + excess - 1)) or now
  return last + window - now
end

local function append(key, gone, now, count)
  if gone > 0 then redis.call('LTRIM', key, gone, -1) end
  -- As a text: Lua would write a large number with an exponent.
  local value = string.format('%.0f', now)
  local values = {}
  for n = 1, math.min(count, 1000) do values[n] = value end
  while count > 0 do
    local pushed = math.min(count, 1000)
    redis.call('RPUSH', key, unpack(values, 1, pushed))
    count = count - pushed
  end
  redis.call('PEXPIRE', key, math.ceil(window / 1000) + 10)
end

local nth = 0
for n = 3, #ARGV - 3, 4 do
  local limit, cost, wanted = tonumber(ARGV[n]), tonumber(ARGV[n + 1]), tonumber(ARGV[n + 2])
  local ownLimit = tonumber(ARGV[n + 3])
  nth = nth + 1
  local key, own = KEYS[nth], nil
  local length, now = lengthAndTime(key, clock)
  local ownLength, ownGone, ownOldest, ownCount = 0, 0, 0, 0
  if ownLimit > 0 then
    nth = nth + 1
    own = KEYS[nth]
    ownLength, now = lengthAndTime(own, now)
    ownGone, ownOldest = findOldest(own, ownLength, now)
    ownCount = ownLength - ownGone
  end
  local gone, oldest = findOldest(key, length, now)
  local count = length - gone
  local taken = wanted
  if cost > 0 then
    taken = roomFor(wanted, cost, limit - count)
    if own then taken = roomFor(taken, cost, ownLimit - ownCount) end
  end
  local spent = taken * cost
  local wait, ownWait = 0, 0
  if taken < wanted then
    wait = waitFor(count + spent + cost - limit, key, gone, count, now)
    if own then ownWait = waitFor(ownCount + spent + cost - ownLimit, own, ownGone, ownCount, now) end
  end
  if spent > 0 then
    append(key, gone, now, spent)
    if own then append(own, ownGone, now, spent) end
  end
  local at = #answers
  answers[at + 1] = taken
  answers[at + 2] = count + spent
  answers[at + 3] = count + spent > 0 and oldest + window - now or 0
  answers[at + 4] = wait
  if own then
    answers[at + 5] = ownCount + spent
    answers[at + 6] = ownCount + spent > 0 and ownOldest + window - now or 0
    answers[at + 7] = ownWait
  end
end
return answers
`;

/** The keys and arguments of the script, after its name or text. */
export function spendArguments(
  asks: readonly Ask[],
  {
    fleetId,
    windowMs,
    deadlineUs,
  }: { readonly fleetId: string; readonly windowMs: number; readonly deadlineUs: number },
): string[] {
  const keys: string[] = [];
  const words = [String(windowMs * 1_000), String(Math.floor(deadlineUs))];
  for (const { teamId, limit, cost, count, key } of asks) {
    keys.push(redisKeyOf(fleetId, { teamId, firstKeyId: undefined }));
    if (key !== undefined) keys.push(redisKeyOf(fleetId, { teamId, firstKeyId: key.firstKeyId }));
    words.push(String(limit), String(cost), String(count), String(key?.limit ?? 0));
  }
  return [String(keys.length), ...keys, ...words];
}

export interface SpendReply {
  /** The server's clock. */
  readonly serverUs: number;
  /** Undefined where the call came too late, and nothing was spent. */
  readonly answers: readonly Answer[] | undefined;
}

/** Reads the script's reply to these asks. Throws where it is something else. */
export function readSpendReply(reply: unknown, asks: readonly Pick<Ask, "key">[]): SpendReply {
  if (!isNumbers(reply)) throw new Error("a reply that is no list of numbers");
  const serverUs = reply[0] ?? 0;
  if (reply.length === 1) return { serverUs, answers: undefined };
  const answers: Answer[] = [];
  let at = 1;
  for (const { key } of asks) {
    const team = { taken: reply[at] ?? 0, ...stateAt(reply, at + 1) };
    answers.push(key === undefined ? team : { ...team, key: stateAt(reply, at + 4) });
    at += key === undefined ? 4 : 7;
  }
  if (reply.length !== at) throw new Error("a reply of another length");
  return { serverUs, answers };
}

function stateAt(reply: readonly number[], at: number): LogState {
  return {
    count: reply[at] ?? 0,
    resetAfterMs: (reply[at + 1] ?? 0) / 1_000,
    retryAfterMs: (reply[at + 2] ?? 0) / 1_000,
  };
}

function isNumbers(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "number");
}
