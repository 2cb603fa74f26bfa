-- Removes all evidence of an experiment. No reply.
--
-- KEYS  1 evidence  2 tallies  3 values  4 over  5 settled  6 serials
-- ARGV  1 EXPERIMENT UID

local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'none' and found ~= 'set' then
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is a ' .. found .. ' and has to be a set')
end
redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
redis.call('SREM', KEYS[1], ARGV[1])
return 'ok'
