-- Removes all evidence of an experiment. No reply.
--
-- KEYS  1 evidence  2 tallies  3 values  4 over  5 compacted  6 serials
-- ARGV  1 EXPERIMENT UID

local function drop(keys, argv)
  local wrong = check_types(keys, { 'set' })
  if wrong then return wrong end
  redis.call('UNLINK', keys[2], keys[3], keys[4], keys[5], keys[6])
  redis.call('SREM', keys[1], argv[1])
  return 'ok'
end

register('drop', drop, 'allow-oom')
