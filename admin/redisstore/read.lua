-- Reads records, all at one instant.
--
-- KEYS  of each partition: index, versions, values
--       then a change stream, if its head is wanted
--       then the set of locations, if their number is wanted
-- ARGV  1 now, in Unix milliseconds
--       2 number of partitions
--       3 "head", or empty
--       4 "locations", or empty
--       5 "values", or "summaries" in place of the values that have one
--       6 number of records at most; 0 means all
--       7 number of names, and each of them: PARTITION NAME
--       then any number of spans: PARTITION MIN MAX TEMPLATE
-- PARTITION counts from 1. MIN and MAX are bounds of its index, as in ZRANGEBYLEX. TEMPLATE
-- is a name in which * is any segment; empty matches every name.
--
-- Replies: {head, locations, records}
--          head is {sequence, nonce} of the stream's last change, or {}
--          locations is their number, or 0
--          records is NAME, STATE, VERSION, VALUE of each record that is there and has
--          not expired: those named, then those of each span in bytewise order, none of
--          them twice. STATE is 1, or 0 if an entry of the record is damaged or lost

local page_size = 500

-- A template is compared with each name of its span. Those of collections are much shorter.
local longest_template = 1024

-- Whether a name has the form of a template.
local function matches(name, template)
  local wanted = string.gmatch(template, '[^/]+')
  for segment in string.gmatch(name, '[^/]+') do
    local of = wanted()
    if of ~= '*' and of ~= segment then return false end
  end
  return wanted() == nil
end

local function open_partitions(keys, n)
  local partitions = {}
  for i = 1, n do
    partitions[i] = { index = keys[3 * i - 2], versions = keys[3 * i - 1], values = keys[3 * i] }
  end
  return partitions
end

-- Returns how many records have a place in the indexes of some partitions.
local function size_of(partitions)
  local size, seen = 0, {}
  for _, partition in ipairs(partitions) do
    if not seen[partition.index] then size = size + redis.call('ZCARD', partition.index) end
    seen[partition.index] = true
  end
  return size
end

-- Returns what is wanted of a value, or nothing if it is not there.
local function value_of(partition, name, summaries)
  local summary = summaries and redis.call('HGET', partition.values, name .. ' summary')
  if summary and redis.call('HEXISTS', partition.values, name) == 1 then return summary end
  return redis.call('HGET', partition.values, name)
end

local function read(keys, argv)
  local now, summaries, limit = tonumber(argv[1]), argv[5] == 'summaries', tonumber(argv[6])
  local n = whole_number(argv[2], #keys / 3)
  if not n then return redis.error_reply(wrong_number) end
  local partitions = open_partitions(keys, n)
  local spans = 8 + 2 * tonumber(argv[7])
  local left = spans <= #argv and size_of(partitions) or 0
  local records, count, seen = {}, 0, {}

  -- Adds a record to the reply, if it is there and was not added before.
  local function add(partition, name)
    if seen[name] then return end
    seen[name] = true
    local version = redis.call('HGET', partition.versions, name)
    local expiry = version and string.match(version, '^%-?%d+ (%d+) ')
    -- What is longer is no number of 64 bits.
    if expiry and #expiry > 18 then expiry = nil end
    if expiry and expiry ~= '0' and tonumber(expiry) <= now then return end
    local value = value_of(partition, name, summaries)
    if not version and not value then return end
    local n = #records
    records[n + 1], records[n + 2] = name, (expiry and value) and '1' or '0'
    records[n + 3], records[n + 4] = version or '', value or ''
    count = count + 1
  end

  -- Adds the records of a span. Returns false once there are as many as are wanted, or if
  -- spans overlap: they would be worth more time than there are records.
  local function add_span(partition, min, max, template)
    repeat
      local page = redis.call('ZRANGEBYLEX', partition.index, min, max, 'LIMIT', 0, page_size)
      left = left - #page
      if left < 0 then return false end
      for _, member in ipairs(page) do
        local name = string.match(member, ' (.*)$')
        if template == '' or matches(name, template) then add(partition, name) end
        if limit > 0 and count == limit then return false end
      end
      if #page > 0 then min = '(' .. page[#page] end
    until #page < page_size
    return true
  end

  for i = spans, #argv, 4 do
    if #argv[i + 3] > longest_template then return redis.error_reply('ERR a template is too long') end
  end
  for i = 8, spans - 1, 2 do add(partitions[tonumber(argv[i])], argv[i + 1]) end
  for i = spans, #argv, 4 do
    if not add_span(partitions[tonumber(argv[i])], argv[i + 1], argv[i + 2], argv[i + 3]) then break end
  end
  if left < 0 then return redis.error_reply('ERR spans overlap') end

  local next_key, changed, locations = 3 * #partitions + 1, {}, 0
  if argv[3] ~= '' then
    changed, next_key = head(keys[next_key]), next_key + 1
  end
  if argv[4] ~= '' then locations = redis.call('SCARD', keys[next_key]) end
  return { changed, locations, records }
end

register('read', read, 'no-writes')
