-- Reads the reports of a location's nodes.
--
-- KEYS  1 nodes  2 heartbeats
-- ARGV  1 milliseconds for which reports are kept
--
-- Replies: NAME, REPORT, TIME and AGE of each node, both in milliseconds by the
--          clock of this Redis, as text

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(n) return string.format('%.0f', n) end

local reply = {}
local beats = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. text(now - ARGV[1]), '+inf', 'WITHSCORES')
for i = 1, #beats, 2 do
  local report = redis.call('HGET', KEYS[1], beats[i])
  if report then
    local n = #reply
    reply[n + 1], reply[n + 2] = beats[i], report
    reply[n + 3], reply[n + 4] = text(tonumber(beats[i + 1])), text(math.max(0, now - beats[i + 1]))
  end
end
return reply
