-- Stores the report of a node with the time of this Redis, and forgets the nodes
-- that have not reported for long.
--
-- KEYS  1 nodes  2 heartbeats  3 the location's change stream  4 watermarks of the nodes
--       5 the location's copy of the watermark
-- ARGV  1 name of the node  2 the report  3 milliseconds for which reports are kept
--       4 the highest watermark that the node knows
--
-- Replies: {head, watermark, ahead}
--          head is {sequence, nonce} of the location's last change, or {}
--          watermark is that of the project, as text; 0 if there is none
--          ahead is the number of nodes that have reported a higher one

local function heartbeat(keys, argv)
  local wrong = check_types(keys, { 'hash', 'zset', 'stream', 'zset', 'hash' })
  if wrong then return wrong end
  local known = whole_number(argv[4], most_changes)
  if not known then return redis.error_reply(wrong_watermark) end

  local now = clock()
  redis.call('HSET', keys[1], argv[1], argv[2])
  redis.call('ZADD', keys[2], text(now), argv[1])
  redis.call('ZADD', keys[4], text(known), argv[1])
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', keys[2], '-inf', text(now - argv[3]))) do
    redis.call('HDEL', keys[1], name)
    redis.call('ZREM', keys[2], name)
    redis.call('ZREM', keys[4], name)
  end
  redis.call('PEXPIRE', keys[1], argv[3])
  redis.call('PEXPIRE', keys[2], argv[3])
  redis.call('PEXPIRE', keys[4], argv[3])
  local watermark = text(tonumber(redis.call('HGET', keys[5], 'number') or '0') or 0)
  return { head(keys[3]), watermark, redis.call('ZCOUNT', keys[4], '(' .. watermark, '+inf') }
end

register('heartbeat', heartbeat)
