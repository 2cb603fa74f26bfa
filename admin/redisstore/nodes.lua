-- Reads the reports of a location's nodes.
--
-- KEYS  1 nodes  2 heartbeats
-- ARGV  1 milliseconds for which reports are kept
--
-- Replies: NAME, REPORT, TIME and AGE of each node, both in milliseconds by the
--          clock of this Redis, as text

local function nodes(keys, argv)
  local now, reply = clock(), {}
  local beats = redis.call('ZRANGEBYSCORE', keys[2], '(' .. text(now - argv[1]), '+inf', 'WITHSCORES')
  for i = 1, #beats, 2 do
    local report = redis.call('HGET', keys[1], beats[i])
    if report then
      local n = #reply
      reply[n + 1], reply[n + 2] = beats[i], report
      reply[n + 3], reply[n + 4] = text(tonumber(beats[i + 1])), text(math.max(0, now - beats[i + 1]))
    end
  end
  return reply
end

register('nodes', nodes, 'no-writes')
