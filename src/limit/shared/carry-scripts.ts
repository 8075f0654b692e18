/**
 * The log of one team, as `Moments`: how long ago in 1/1024 ms, and how many, the oldest first. An
 * age is rounded down, so that a request never leaves early. Times and the window are microseconds.
 */
export const readLogScript = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window = tonumber(ARGV[1])
local times = redis.call('LRANGE', KEYS[1], 0, -1)
local moments = {}
if #times > 0 then now = math.max(now, tonumber(times[#times])) end
for _, text in ipairs(times) do
  local age = now - tonumber(text)
  if age < window then
    local tick = math.floor(age * 1024 / 1000)
    local last = #moments
    if last > 0 and moments[last - 1] == tick then
      moments[last] = moments[last] + 1
    else
      moments[last + 1] = tick
      moments[last + 2] = 1
    end
  end
end
return moments
`;

/**
 * Makes the log of one team from such moments, each older by ARGV[2] microseconds. A team that has
 * a log keeps it as it is with ARGV[3] = 'keep'. With 'merge' the nth newest request becomes the
 * newer of both: whether the log is older than the moments, or has them already and more, nothing
 * that counts is lost or counted twice. Returns how many requests it wrote.
 */
export const writeLogScript = `
if ARGV[3] == 'keep' and redis.call('LLEN', KEYS[1]) > 0 then return 0 end
local here = redis.call('LRANGE', KEYS[1], 0, -1)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window, later = tonumber(ARGV[1]), tonumber(ARGV[2])
local times = {}
for n = 4, #ARGV, 2 do
  local age = math.floor(tonumber(ARGV[n]) * 1000 / 1024) + later
  if age < window then
    for _ = 1, tonumber(ARGV[n + 1]) do times[#times + 1] = now - age end
  end
end
if #times == 0 then return 0 end
local count = math.max(#times, #here)
local values = {}
-- Removes all, by a command on lists: Keyrun's user in Redis may need no other.
redis.call('LTRIM', KEYS[1], 1, 0)
for n = 1, count do
  -- Counted from the newest, which is the last of each.
  local mine, theirs = times[#times - count + n] or 0, tonumber(here[#here - count + n] or 0)
  -- As a text: Lua would write a large number with an exponent.
  values[#values + 1] = string.format('%.0f', math.max(mine, theirs))
  if #values == 1000 or n == count then
    redis.call('RPUSH', KEYS[1], unpack(values))
    values = {}
  end
end
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000) + 10)
return count
`;
