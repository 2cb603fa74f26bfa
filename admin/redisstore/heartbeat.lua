-- Stores the report of a node with the time of this Redis, and forgets the nodes
-- that have not reported for long.
--
-- KEYS  1 nodes  2 heartbeats  3 the location's change stream
-- ARGV  1 name of the node  2 the report  3 milliseconds for which reports are kept
--
-- Replies: {sequence, nonce} of the location's last change, or {}

local function heartbeat(keys, argv)
  local wrong = check_types(keys, { 'hash', 'zset', 'stream' })
  if wrong then return wrong end

  local now = clock()
  redis.call('HSET', keys[1], argv[1], argv[2])
  redis.call('ZADD', keys[2], text(now), argv[1])
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', keys[2], '-inf', text(now - argv[3]))) do
    redis.call('HDEL', keys[1], name)
    redis.call('ZREM', keys[2], name)
  end
  redis.call('PEXPIRE', keys[1], argv[3])
  redis.call('PEXPIRE', keys[2], argv[3])
  return head(keys[3])
end

register('heartbeat', heartbeat)
