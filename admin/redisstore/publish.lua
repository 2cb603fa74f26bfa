-- Stores what the tallies of a node have counted. Everything that can fail is tried before
-- the first write.
--
-- KEYS  1 versions  2 values  3 heartbeats  4 evidence
--       then of each tally, in order, those of its experiment: tallies, values, over, serials
-- ARGV  1 name of the node  2 milliseconds after which a report is that of a dead node
--       3 now, in Unix milliseconds, by the clock that records expire by
--       then of each tally: EXPERIMENT UID TALLY SERIAL VALUE
--
-- Replies: {nodes, refused}, the number of live nodes with this one, and the tallies that
--          were not stored, each with the SERIAL that was settled, '' if that is lost, or
--          '0' if the tally is not over, but its experiment is gone

local node, lifetime, clock = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(n) return string.format('%.0f', n) end

local function check_type(key, expected)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= expected then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ' and has to be a ' .. expected)
  end
end

local function check_types()
  local wrong = check_type(KEYS[1], 'hash') or check_type(KEYS[2], 'hash')
    or check_type(KEYS[3], 'zset') or check_type(KEYS[4], 'set')
  for i = 5, #KEYS, 4 do
    wrong = wrong or check_type(KEYS[i], 'hash') or check_type(KEYS[i + 1], 'hash')
      or check_type(KEYS[i + 2], 'zset') or check_type(KEYS[i + 3], 'hash')
  end
  return wrong
end

-- Whether there is an experiment of the name. The one that is there is looked into for the
-- UID only if nothing of the tally is stored yet: it may be long.
local function is_there(name, uid, known)
  local version, value = redis.call('HGET', KEYS[1], name), nil
  local expiry = version and string.match(version, '^%-?%d+ (%d+) ')
  if expiry and #expiry <= 18 and expiry ~= '0' and tonumber(expiry) <= clock then return false end
  if version and known then return true end
  value = redis.call('HGET', KEYS[2], name)
  -- Of a damaged record the UID is not known.
  if not version or not value then return (version or value) and true or false end
  return string.find(value, uid, 1, true) ~= nil
end

local wrong = check_types()
if wrong then return wrong end

local refused = {}
local key = 5
for i = 4, #ARGV, 5 do
  local name, uid, tally, serial, value = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local tallies, values, over, serials = KEYS[key], KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  key = key + 4
  local before = redis.call('HGET', tallies, tally)
  local last = tonumber(before and string.match(before, '^(%d+) ') or '')
  if redis.call('ZSCORE', over, tally) then
    refused[#refused + 1], refused[#refused + 2] = tally, redis.call('HGET', serials, tally) or ''
  elseif not is_there(name, uid, last) then
    refused[#refused + 1], refused[#refused + 2] = tally, '0'
  elseif not last or last <= tonumber(serial) then
    redis.call('HSET', tallies, tally, serial .. ' ' .. text(now) .. ' ' .. node)
    redis.call('HSET', values, tally, value)
    if not last then redis.call('SADD', KEYS[4], name .. ' ' .. uid) end
  end
end

local alive = '(' .. text(now - lifetime)
local nodes = redis.call('ZCOUNT', KEYS[3], alive, '+inf')
local own = redis.call('ZSCORE', KEYS[3], node)
if not own or tonumber(own) <= now - lifetime then nodes = nodes + 1 end
return { nodes, refused }
