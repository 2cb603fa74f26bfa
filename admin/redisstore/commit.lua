-- Makes one Txn: all conditions first, then all writes. Redis does not undo what a
-- failed script has written, so everything that can fail is tried before the first
-- write.
--
-- KEYS  1 sequence  2 index  3 versions  4 values  5 expiries  6 done:ID
--       7... the change stream of each event, in order
-- ARGV  1 now, in Unix milliseconds
--       2 nonce of the changes
--       3 number of entries that a stream keeps
--       4 seconds for which the Txn can be repeated
--       5 age in milliseconds from which on expired records are removed
--       then the number of conditions, and each of them:
--         "exists" NAME ETAG (empty: any) | "absent" NAME | "unchanged" NAME SEQUENCE
--         | "fewer" MIN MAX N
--       then the number of writes, and each of them:
--         "put" MEMBER NAME VALUE ETAG EXPIRY SEQUENCE (0: that of the Txn)
--         | "delete" MEMBER | "clear" MIN MAX | "trim" MIN MAX N | "expire" MIN MAX EXPIRY
--       then for each event the names of its policies, separated by blanks
-- MEMBER is KIND NAME; MIN and MAX are bounds of the index as in ZRANGEBYLEX.
--
-- Replies: {"ok", sequence}, also for a repeated Txn
--          {"failed", index}, the first condition that does not hold, from 0

local now = tonumber(ARGV[1])
local position = 5

local function take()
  position = position + 1
  return ARGV[position]
end

local function check_types()
  local expected = { 'string', 'zset', 'hash', 'hash', 'zset', 'string' }
  for i, key in ipairs(KEYS) do
    local found = redis.call('TYPE', key).ok
    if found ~= 'none' and found ~= (expected[i] or 'stream') then
      return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ' and has to be a ' .. (expected[i] or 'stream'))
    end
  end
end

-- Returns the sequence and the etag of a record, or nothing and whether it has expired. A
-- damaged one is none: this is called between writes, where nothing may fail.
local function parts(name)
  local found = redis.call('HGET', KEYS[3], name) or ''
  local sequence, expiry, etag = string.match(found, '^(%-?%d+) (%d+) (.*)$')
  -- What is longer is no number of 64 bits: the server takes it for damaged.
  if sequence and math.max(#sequence, #expiry) > 18 then sequence = nil end
  if sequence and expiry ~= '0' and tonumber(expiry) <= now then return nil, nil, true end
  if sequence and redis.call('HEXISTS', KEYS[4], name) == 1 then return sequence, etag end
end

-- Returns the sequence and the etag of a record, or nothing if it is not there. One with
-- an entry that is damaged or lost is there: its sequence is 0.
local function version(name)
  local sequence, etag, expired = parts(name)
  if sequence or expired then return sequence, etag end
  for i = 3, 4 do
    if redis.call('HEXISTS', KEYS[i], name) == 1 then return '0', '' end
  end
end

local function name_of(member) return string.match(member, ' (.*)$') end

local function fewer(min, max, n)
  if redis.call('ZLEXCOUNT', KEYS[2], min, max) < n then return true end
  local count = 0
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], min, max)) do
    if version(name_of(member)) then count = count + 1 end
  end
  return count < n
end

local holds = {
  exists = function()
    local name, expected = take(), take()
    local sequence, etag = version(name)
    return sequence ~= nil and (expected == '' or expected == etag)
  end,
  absent = function() return version(take()) == nil end,
  unchanged = function()
    local name, expected = take(), take()
    return version(name) == expected
  end,
  fewer = function()
    local min, max, n = take(), take(), tonumber(take())
    return fewer(min, max, n)
  end,
}

-- Returns the last change of a stream as SEQUENCE NONCE, and the lowest sequence
-- that the stream takes next, which a lost counter does not know.
local function head(stream)
  if redis.call('EXISTS', stream) == 0 then return '0 ', 1 end
  local previous, lowest = '0 ', 1
  local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  if last then previous = string.match(last[1], '^%d+') .. ' ' .. last[2][2] end
  local info = redis.call('XINFO', 'STREAM', stream)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      lowest = tonumber(string.match(info[i + 1], '^%d+')) + 1
    end
  end
  return previous, lowest
end

local function remove(member)
  local name = name_of(member)
  redis.call('HDEL', KEYS[3], name)
  redis.call('HDEL', KEYS[4], name)
  redis.call('ZREM', KEYS[2], member)
  redis.call('ZREM', KEYS[5], member)
end

local function set_expiry(member, expiry)
  if expiry == '0' then
    redis.call('ZREM', KEYS[5], member)
  else
    redis.call('ZADD', KEYS[5], expiry, member)
  end
end

-- Whether record a was written after b, or with it and has the later name.
local function newer(a, b)
  if a.sequence ~= b.sequence then return a.sequence > b.sequence end
  return a.member > b.member
end

local apply = {
  put = function(sequence)
    local member, name, value, etag = take(), take(), take(), take()
    local expiry, own = take(), take()
    if own == '0' then own = sequence end
    redis.call('HSET', KEYS[3], name, own .. ' ' .. expiry .. ' ' .. etag)
    redis.call('HSET', KEYS[4], name, value)
    redis.call('ZADD', KEYS[2], 0, member)
    set_expiry(member, expiry)
  end,
  delete = function() remove(take()) end,
  clear = function()
    local min, max = take(), take()
    for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], min, max)) do
      remove(member)
    end
  end,
  trim = function()
    local min, max, keep = take(), take(), tonumber(take())
    if redis.call('ZLEXCOUNT', KEYS[2], min, max) <= keep then return end
    local records = {}
    for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], min, max)) do
      local sequence = parts(name_of(member))
      if sequence then
        records[#records + 1] = { sequence = tonumber(sequence), member = member }
      end
    end
    table.sort(records, newer)
    for i = keep + 1, #records do remove(records[i].member) end
  end,
  expire = function()
    local min, max, expiry = take(), take(), take()
    for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], min, max)) do
      local sequence, etag = parts(name_of(member))
      if sequence then
        redis.call('HSET', KEYS[3], name_of(member), sequence .. ' ' .. expiry .. ' ' .. etag)
        set_expiry(member, expiry)
      end
    end
  end,
}

local wrong = check_types()
if wrong then return wrong end

local done = redis.call('GET', KEYS[6])
if done then return { 'ok', tonumber(done) } end

for i = 0, take() - 1 do
  if not holds[take()]() then return { 'failed', i } end
end

local sequence = tonumber(redis.call('GET', KEYS[1]) or '0') + 1
local previous = {}
for i = 7, #KEYS do
  local lowest
  previous[i], lowest = head(KEYS[i])
  sequence = math.max(sequence, lowest)
end
sequence = string.format('%.0f', sequence)

-- From here on everything is written.
redis.call('SET', KEYS[1], sequence)
redis.call('SET', KEYS[6], sequence, 'EX', ARGV[4])
local outdated = string.format('%.0f', now - tonumber(ARGV[5]))
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', outdated, 'LIMIT', 0, 16)) do
  remove(member)
end
for _ = 1, take() do
  apply[take()](sequence)
end
for i = 7, #KEYS do
  redis.call('XADD', KEYS[i], 'MAXLEN', ARGV[3], sequence .. '-0',
    'nonce', ARGV[2], 'previous', previous[i], 'policies', take())
end
return { 'ok', tonumber(sequence) }
