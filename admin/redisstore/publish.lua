-- Stores what the tallies of a node have counted. Everything that can fail is tried before
-- the first write.
--
-- KEYS  1 versions  2 values  3 heartbeats  4 evidence
--       then of each tally, in order, those of its experiment: tallies, values, over, serials
-- ARGV  1 name of the node  2 milliseconds after which a report is that of a dead node
--       3 now, in Unix milliseconds, by the clock that records expire by
--       then of each tally, of which there are 64 at most: EXPERIMENT UID TALLY SERIAL VALUE
--
-- Replies: {nodes, refused}, the number of live nodes with this one, and the tallies that
--          were not stored, each with the SERIAL that was compacted, '' if that is lost, or
--          '0' if the tally is not over, but its experiment is gone

-- The experiment of each may have to be searched for a UID.
local most, longest_uid = 64, 64

-- What is longer than this is not searched: a record that long has a summary.
local longest_searched = 64 * 1024

local function check(keys)
  if #keys > 4 + 4 * most then return redis.error_reply('ERR more than ' .. most .. ' tallies') end
  local expected = { 'hash', 'hash', 'zset', 'set' }
  for i = 5, #keys, 4 do
    expected[i], expected[i + 1], expected[i + 2], expected[i + 3] = 'hash', 'hash', 'zset', 'hash'
  end
  return check_types(keys, expected)
end

-- Whether there is an experiment of the name. The one that is there is looked into for the
-- UID only if nothing of the tally is stored yet.
local function is_there(keys, now, name, uid, known)
  local version, value = redis.call('HGET', keys[1], name), nil
  local expiry = version and string.match(version, '^%-?%d+ (%d+) ')
  if expiry and #expiry <= 18 and expiry ~= '0' and tonumber(expiry) <= now then return false end
  if version and known then return true end
  value = redis.call('HGET', keys[2], name .. ' summary') or redis.call('HGET', keys[2], name)
  -- Of a damaged record the UID is not known.
  if not version or not value then return (version or value) and true or false end
  if #value > longest_searched then return true end
  return #uid <= longest_uid and string.find(value, uid, 1, true) ~= nil
end

-- Returns the number of live nodes, this one included.
local function live(heartbeats, node, since)
  local nodes = redis.call('ZCOUNT', heartbeats, '(' .. text(since), '+inf')
  local own = redis.call('ZSCORE', heartbeats, node)
  if not own or tonumber(own) <= since then nodes = nodes + 1 end
  return nodes
end

local function publish(keys, argv)
  local wrong = check(keys)
  if wrong then return wrong end

  local node, now, refused, key = argv[1], clock(), {}, 5
  for i = 4, #argv, 5 do
    local name, uid, tally, serial, value = argv[i], argv[i + 1], argv[i + 2], argv[i + 3], argv[i + 4]
    local tallies, values, over, serials = keys[key], keys[key + 1], keys[key + 2], keys[key + 3]
    key = key + 4
    local before = redis.call('HGET', tallies, tally)
    local last = tonumber(before and string.match(before, '^(%d+) ') or '')
    if redis.call('ZSCORE', over, tally) then
      refused[#refused + 1], refused[#refused + 2] = tally, redis.call('HGET', serials, tally) or ''
    elseif not is_there(keys, tonumber(argv[3]), name, uid, last) then
      refused[#refused + 1], refused[#refused + 2] = tally, '0'
    elseif not last or last <= tonumber(serial) then
      redis.call('HSET', tallies, tally, serial .. ' ' .. text(now) .. ' ' .. node)
      redis.call('HSET', values, tally, value)
      if not last then redis.call('SADD', keys[4], name .. ' ' .. uid) end
    end
  end
  return { live(keys[3], node, now - tonumber(argv[2])), refused }
end

register('publish', publish)
