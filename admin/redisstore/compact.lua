-- Replaces tallies by their sum with what was compacted before. Everything that can fail is
-- tried before the first write.
--
-- KEYS  1 evidence  2 tallies  3 values  4 over  5 compacted  6 serials
-- ARGV  1 EXPERIMENT UID
--       2 version that was read
--       3 the new sum
--       4 milliseconds for which it is known that a tally is over
--       then pairs of TALLY and SERIAL
--
-- Replies: 1, also if that very compaction was made before; 0 if something has changed

-- Whether this very compaction is what the present version is of.
local function is_made(keys, argv)
  if redis.call('HGET', keys[5], 'value') ~= argv[3] then return false end
  for i = 5, #argv, 2 do
    if not redis.call('ZSCORE', keys[4], argv[i]) then return false end
  end
  return true
end

-- Whether each tally is there as it was read.
local function are_there(keys, argv)
  if redis.call('SISMEMBER', keys[1], argv[1]) == 0 then return false end
  for i = 5, #argv, 2 do
    local entry = redis.call('HGET', keys[2], argv[i])
    if not entry or string.match(entry, '^(%d+) ') ~= argv[i + 1] then return false end
  end
  return true
end

local function compact(keys, argv)
  local wrong = check_types(keys, { 'set', 'hash', 'hash', 'zset', 'hash', 'hash' })
  if wrong then return wrong end

  local version = tonumber(redis.call('HGET', keys[5], 'version') or '0') or 0
  local read, now = tonumber(argv[2]), clock()
  if version == read + 1 and is_made(keys, argv) then return 1 end
  if version ~= read or not are_there(keys, argv) then return 0 end

  -- From here on everything is written.
  redis.call('HSET', keys[5], 'version', text(read + 1), 'value', argv[3])
  for i = 5, #argv, 2 do
    redis.call('HDEL', keys[2], argv[i])
    redis.call('HDEL', keys[3], argv[i])
    redis.call('ZADD', keys[4], text(now), argv[i])
    redis.call('HSET', keys[6], argv[i], argv[i + 1])
  end
  local long_ago = text(now - argv[4])
  for _, tally in ipairs(redis.call('ZRANGEBYSCORE', keys[4], '-inf', long_ago)) do
    redis.call('HDEL', keys[6], tally)
  end
  redis.call('ZREMRANGEBYSCORE', keys[4], '-inf', long_ago)
  return 1
end

register('compact', compact)
