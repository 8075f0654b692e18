import type { Answer, Ask, LogState } from "./shared-logs.ts";

/**
 * The exact sliding log of each team in Redis: a list of the times of accepted requests in
 * microseconds, oldest first. It decides as `SlidingLog` does, for many asks in one step. A key
 * with a limit of its own has such a log too, under the hash tag of its team, and a spend is taken
 * from both or from neither.
 *
 * KEYS: the log of each ask's team, and after it that of its key where it has one. ARGV: the
 * window, the time after which nothing is spent, then cost, count, the team's limit and the key's
 * (0: it has none) of each ask. All times are microseconds of the server's clock. Returns that
 * clock, and after it for each ask how many spends it took, and three numbers for each of its logs;
 * the clock alone if it is too late.
 */
export const spendScript = `
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
if clock > tonumber(ARGV[2]) then return {clock} end
local window = tonumber(ARGV[1])
local call, max, min, floor = redis.call, math.max, math.min, math.floor

local function timeAt(log, n) return tonumber(call('LINDEX', log.key, n)) end

-- Finds how many of the oldest have left the window, and the time of the next one, if there is one.
local function count(log, now)
  local low, high = 0, log.length
  log.oldest = now
  if high > 0 then log.oldest = timeAt(log, 0) end
  if log.oldest + window <= now then
    while low < high do
      local middle = floor((low + high) / 2)
      if timeAt(log, middle) + window > now then high = middle else low = middle + 1 end
    end
    log.oldest = low < log.length and timeAt(log, low) or now
  end
  log.gone, log.count = low, log.length - low
end

-- How long a spend waits for the entry that must leave: one of the log, or one appended now.
local function waitFor(log, excess, now)
  if excess <= 0 then return 0 end
  return (excess <= log.count and timeAt(log, log.gone + excess - 1) or now) + window - now
end

local function append(log, now, left)
  if log.gone > 0 then call('LTRIM', log.key, log.gone, -1) end
  -- As a text: Lua would write a large number with an exponent.
  local value, values = string.format('%.0f', now), {}
  for n = 1, min(left, 1000) do values[n] = value end
  while left > 0 do
    call('RPUSH', log.key, unpack(values, 1, min(left, 1000)))
    left = left - 1000
  end
  call('PEXPIRE', log.key, math.ceil(window / 1000) + 10)
end

local answers, size, nth = {clock}, 1, 0
for n = 3, #ARGV - 3, 4 do
  local cost, wanted = tonumber(ARGV[n]), tonumber(ARGV[n + 1])
  local now, logs, logsCount = clock, {}, ARGV[n + 3] == '0' and 1 or 2
  for at = 1, logsCount do
    nth = nth + 1
    local key, limit = KEYS[nth], tonumber(ARGV[n + 1 + at])
    local length = call('LLEN', key)
    logs[at] = {key = key, limit = limit, length = length, count = length, gone = 0, oldest = 0}
    -- A clock that was set back counts as standing still.
    if length > 0 then now = max(now, timeAt(logs[at], -1)) end
  end
  local taken = wanted
  for at = 1, logsCount do
    local log = logs[at]
    count(log, now)
    if cost > 0 then taken = max(0, min(taken, floor((log.limit - log.count) / cost))) end
  end
  local spent = taken * cost
  answers[size + 1] = taken
  size = size + 1
  for at = 1, logsCount do
    local log = logs[at]
    local after = log.count + spent
    local wait = taken < wanted and waitFor(log, after + cost - log.limit, now) or 0
    if spent > 0 then append(log, now, spent) end
    answers[size + 1] = after
    answers[size + 2] = after > 0 and log.oldest + window - now or 0
    answers[size + 3] = wait
    size = size + 3
  end
end
return answers
`;

/** The keys and arguments of the script, after its name or text. */
export function spendArguments(
  asks: readonly Ask[],
  settings: { readonly fleetId: string; readonly windowMs: number; readonly deadlineUs: number },
): string[] {
  const { fleetId, windowMs, deadlineUs } = settings;
  const keys: string[] = [];
  const words = [windowMs * 1_000, Math.floor(deadlineUs)];
  for (const { teamId, limit, cost, count, key } of asks) {
    // Two fleets never share a log, whatever the ids of their teams are.
    const ofTeam = `keyrun:${fleetId}:{${teamId}}`;
    keys.push(`${ofTeam}:log`);
    if (key !== undefined) keys.push(`${ofTeam}:key:${key.firstKeyId}:log`);
    words.push(cost, count, limit, key?.limit ?? 0);
  }
  return [String(keys.length), ...keys, ...words.map(String)];
}

/**
 * Reads the script's reply to these asks: the server's clock, and the answers, undefined where the
 * call came too late and nothing was spent. Throws where it is something else.
 */
export function readSpendReply(reply: unknown, asks: readonly Pick<Ask, "key">[]) {
  if (!isNumbers(reply)) throw new Error("a reply that is no list of numbers");
  const [serverUs = 0, ...numbers] = reply;
  if (numbers.length === 0) return { serverUs, answers: undefined };
  let at = 0;
  const next = () => numbers[at++] ?? 0;
  const nextState = (): LogState => {
    return { count: next(), resetAfterMs: next() / 1_000, retryAfterMs: next() / 1_000 };
  };
  const answers = asks.map(({ key }): Answer => {
    const team = { taken: next(), ...nextState() };
    return key === undefined ? team : { ...team, key: nextState() };
  });
  if (numbers.length !== at) throw new Error("a reply of another length");
  return { serverUs, answers };
}

function isNumbers(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "number");
}
