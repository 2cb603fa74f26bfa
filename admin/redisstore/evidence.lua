-- Reads the evidence of an experiment, all at one instant.
--
-- KEYS  1 tallies  2 values  3 settled
-- ARGV  pairs of TALLY and SERIAL: values that the caller knows
--
-- Replies: {version, settled, records}
--          version and settled are those of the hash: lists of one, or of none
--          records is TALLY, ENTRY, VALUE, AGE of each tally; ENTRY is SERIAL TIME NODE or
--          '' if it is lost; AGE is in milliseconds by the clock of this Redis, or '' if
--          ENTRY is damaged; VALUE is a list of one, of none if the caller knows it, or
--          false if it is lost

for i, expected in ipairs({ 'hash', 'hash', 'hash' }) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= expected then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. found .. ' and has to be a ' .. expected)
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local known = {}
for i = 1, #ARGV, 2 do known[ARGV[i]] = ARGV[i + 1] end

local records = {}
local entries = redis.call('HGETALL', KEYS[1])
for i = 1, #entries, 2 do
  local tally, entry = entries[i], entries[i + 1]
  local serial, at = string.match(entry, '^(%d+) (%d+) ')
  local n = #records
  records[n + 1], records[n + 2] = tally, entry
  if serial and known[tally] == serial then
    records[n + 3] = {}
  else
    local value = redis.call('HGET', KEYS[2], tally)
    records[n + 3] = value and { value }
  end
  records[n + 4] = at and string.format('%.0f', math.max(0, now - tonumber(at))) or ''
end
-- Values that have lost their entries.
if redis.call('HLEN', KEYS[2]) > #entries / 2 then
  for _, tally in ipairs(redis.call('HKEYS', KEYS[2])) do
    if redis.call('HEXISTS', KEYS[1], tally) == 0 then
      local n = #records
      records[n + 1], records[n + 2], records[n + 3], records[n + 4] = tally, '', false, ''
    end
  end
end
local settled = redis.call('HMGET', KEYS[3], 'version', 'value')
return { { settled[1] or nil }, { settled[2] or nil }, records }
