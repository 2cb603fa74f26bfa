-- Replaces tallies by their sum with what was settled before. Everything that can fail is
-- tried before the first write.
--
-- KEYS  1 evidence  2 tallies  3 values  4 over  5 settled  6 serials
-- ARGV  1 EXPERIMENT UID
--       2 version that was read
--       3 the new sum
--       4 milliseconds for which it is known that a tally is over
--       then pairs of TALLY and SERIAL
--
-- Replies: 1, also if that very settlement was made before; 0 if something has changed

for i, expected in ipairs({ 'set', 'hash', 'hash', 'zset', 'hash', 'hash' }) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= expected then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. found .. ' and has to be a ' .. expected)
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(n) return string.format('%.0f', n) end

local version = tonumber(redis.call('HGET', KEYS[5], 'version') or '0') or 0
local read = tonumber(ARGV[2])

local function is_made()
  if version ~= read + 1 or redis.call('HGET', KEYS[5], 'value') ~= ARGV[3] then return false end
  for i = 5, #ARGV, 2 do
    if not redis.call('ZSCORE', KEYS[4], ARGV[i]) then return false end
  end
  return true
end

if is_made() then return 1 end
if version ~= read or redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then return 0 end
for i = 5, #ARGV, 2 do
  local entry = redis.call('HGET', KEYS[2], ARGV[i])
  if not entry or string.match(entry, '^(%d+) ') ~= ARGV[i + 1] then return 0 end
end

-- From here on everything is written.
redis.call('HSET', KEYS[5], 'version', text(read + 1), 'value', ARGV[3])
for i = 5, #ARGV, 2 do
  redis.call('HDEL', KEYS[2], ARGV[i])
  redis.call('HDEL', KEYS[3], ARGV[i])
  redis.call('ZADD', KEYS[4], text(now), ARGV[i])
  redis.call('HSET', KEYS[6], ARGV[i], ARGV[i + 1])
end
local long_ago = text(now - ARGV[4])
for _, tally in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', long_ago)) do
  redis.call('HDEL', KEYS[6], tally)
end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', long_ago)
return 1
