-- Reads the evidence of an experiment, all at one instant.
--
-- KEYS  1 tallies  2 values  3 compacted
--
-- Replies: {version, compacted, records}
--          version and compacted are those of the hash: lists of one, or of none
--          records is TALLY, ENTRY, VALUE, AGE of each tally; ENTRY is SERIAL TIME NODE or
--          '' if it is lost; AGE is in milliseconds by the clock of this Redis, or '' if
--          ENTRY is damaged; VALUE is a list of one, or false if it is lost

-- Adds the values that have lost their entries, if there are more of those than entries.
local function add_lost(keys, entries, records)
  if redis.call('HLEN', keys[2]) <= entries then return end
  for _, tally in ipairs(redis.call('HKEYS', keys[2])) do
    if redis.call('HEXISTS', keys[1], tally) == 0 then
      local n = #records
      records[n + 1], records[n + 2], records[n + 3], records[n + 4] = tally, '', false, ''
    end
  end
end

local function evidence(keys)
  local wrong = check_types(keys, { 'hash', 'hash', 'hash' })
  if wrong then return wrong end

  local now, records = clock(), {}
  local entries = redis.call('HGETALL', keys[1])
  for i = 1, #entries, 2 do
    local tally, entry = entries[i], entries[i + 1]
    local at = string.match(entry, '^%d+ (%d+) ')
    local n, value = #records, redis.call('HGET', keys[2], tally)
    records[n + 1], records[n + 2] = tally, entry
    records[n + 3] = value and { value }
    records[n + 4] = at and text(math.max(0, now - tonumber(at))) or ''
  end
  add_lost(keys, #entries / 2, records)
  local compacted = redis.call('HMGET', keys[3], 'version', 'value')
  return { { compacted[1] or nil }, { compacted[2] or nil }, records }
end

register('evidence', evidence, 'no-writes')
