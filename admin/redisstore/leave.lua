-- Removes the report of a node. No reply.
--
-- KEYS  1 nodes  2 heartbeats  3 watermarks of the nodes
-- ARGV  1 name of the node

local function leave(keys, argv)
  redis.call('HDEL', keys[1], argv[1])
  redis.call('ZREM', keys[2], argv[1])
  redis.call('ZREM', keys[3], argv[1])
  return 'ok'
end

register('leave', leave, 'allow-oom')
