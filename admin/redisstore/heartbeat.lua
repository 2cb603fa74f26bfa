-- Stores the report of a node with the time of this Redis, and forgets the nodes
-- that have not reported for long.
--
-- KEYS  1 nodes  2 heartbeats  3 the location's change stream
-- ARGV  1 name of the node  2 the report  3 milliseconds for which reports are kept
--
-- Replies: {sequence, nonce} of the location's last change, or {}

for i, expected in ipairs({ 'hash', 'zset', 'stream' }) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= expected then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. found .. ' and has to be a ' .. expected)
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(n) return string.format('%.0f', n) end

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], text(now), ARGV[1])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now - ARGV[3]))) do
  redis.call('HDEL', KEYS[1], name)
  redis.call('ZREM', KEYS[2], name)
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])

local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
if not last then return {} end
return { string.match(last[1], '^%d+'), last[2][2] }
