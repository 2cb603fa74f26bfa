-- Reads records, all at one instant.
--
-- KEYS  1 index  2 versions  3 values  4 a change stream (optional)
-- ARGV  1 now, in Unix milliseconds
--       then the number of names, and each of them
--       then any number of spans of the index: MIN MAX PATTERN LIMIT, as in
--       ZRANGEBYLEX; an empty PATTERN matches every name; LIMIT 0 means all
--
-- Replies: {head, records}
--          head is {sequence, nonce} of the stream's last change, or {}
--          records is NAME, STATE, VERSION, VALUE of each record that is there and has
--          not expired: those named, then those of each span in bytewise order. STATE is
--          1, or 0 if an entry of the record is damaged or lost

local page_size = 500
local now = tonumber(ARGV[1])
local records = {}

-- Adds a record to the reply and returns true, if it is there.
local function add(name)
  local version = redis.call('HGET', KEYS[2], name)
  local expiry = version and string.match(version, '^%-?%d+ (%d+) ')
  if expiry and #expiry > 18 then expiry = nil end
  if expiry and expiry ~= '0' and tonumber(expiry) <= now then return false end
  local value = redis.call('HGET', KEYS[3], name)
  if not version and not value then return false end
  local n = #records
  records[n + 1], records[n + 2] = name, (expiry and value) and '1' or '0'
  records[n + 3], records[n + 4] = version or '', value or ''
  return true
end

local function add_span(min, max, pattern, limit)
  local count = 0
  repeat
    local page = redis.call('ZRANGEBYLEX', KEYS[1], min, max, 'LIMIT', 0, page_size)
    for _, member in ipairs(page) do
      local name = string.match(member, ' (.*)$')
      if (pattern == '' or string.match(name, pattern)) and add(name) then
        count = count + 1
        if count == limit then return end
      end
    end
    if #page > 0 then min = '(' .. page[#page] end
  until #page < page_size
end

local function head()
  if not KEYS[4] then return {} end
  local last = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
  if not last then return {} end
  return { string.match(last[1], '^%d+'), last[2][2] }
end

local names = tonumber(ARGV[2])
for i = 3, 2 + names do add(ARGV[i]) end
for i = 3 + names, #ARGV, 4 do
  add_span(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]))
end
return { head(), records }
