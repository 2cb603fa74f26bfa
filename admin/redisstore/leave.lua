-- Removes the report of a node. No reply.
--
-- KEYS  1 nodes  2 heartbeats
-- ARGV  1 name of the node

redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 'ok'
