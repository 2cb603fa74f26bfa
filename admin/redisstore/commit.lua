-- Makes one Txn: all conditions first, then all writes. Redis does not undo what a
-- failed function has written, so everything that can fail is tried before the first
-- write.
--
-- KEYS  1 sequence  2 done:ID  3 locations  4 watermark
--       then of each partition: index, versions, values, expiries
--       then the chunks of each content
--       then the change stream of each event, in order
-- ARGV  1 now, in Unix milliseconds
--       2 nonce of the changes
--       3 number of entries that a stream keeps
--       4 seconds for which the Txn can be repeated
--       5 age in milliseconds from which on expired records are removed
--       6 the lowest watermark of a store that has not gone back
--       7 the number that the Txn's number has to be above
--       8 "raises" if the Txn's number becomes the watermark, or empty
--       9 number of partitions, and of each the ID of its location; empty if it has none, or
--         if one before it is of the same
--       then the number of contents
--       then the number of conditions, and each of them:
--         "exists" PARTITION NAME ETAG (empty: any) | "absent" PARTITION NAME
--         | "unchanged" PARTITION NAME SEQUENCE | "fewer" PARTITION MIN MAX N
--         | "complete" CONTENT N
--       then the number of writes, and each of them:
--         "put" PARTITION MEMBER NAME VALUE SUMMARY (empty: none) ETAG EXPIRY
--         SEQUENCE (0: that of the Txn)
--         | "delete" PARTITION MEMBER | "clear" PARTITION MIN MAX
--         | "trim" PARTITION MIN MAX N | "expire" PARTITION MIN MAX EXPIRY
--         | "keep" CONTENT EXPIRY (0: never)
--       then for each event the names of its policies, and those of its datasets, separated by
--       blanks
-- PARTITION and CONTENT count from 1; MEMBER is KIND NAME; MIN and MAX are bounds of the index as in
-- ZRANGEBYLEX.
--
-- Replies: {"ok", sequence}, also for a repeated Txn
--          {"failed", index}, the first condition that does not hold, from 0
--          {"behind", watermark} if the store has gone back
--
-- The watermark is copied to the hash feed/watermark of each location that has had a record, where
-- sidecars read it: of all locations when it rises, of those of the Txn in any case.

local first_partition, keys_of_partition = 5, 4
-- removed_at_once bounds what a Txn removes of what has expired.
local removed_at_once = 16

-- Returns the partitions of the keys, those of the contents, the index of the first stream, and
-- the error of a key that has the wrong type.
local function open_partitions(keys, n, n_contents)
  local expected, partitions, contents = { 'string', 'string', 'set', 'string' }, {}, {}
  local first_content = first_partition + keys_of_partition * n
  local streams = first_content + n_contents
  for at = first_partition, first_content - 1, keys_of_partition do
    partitions[#partitions + 1] = { index = keys[at], versions = keys[at + 1], values = keys[at + 2], expiries = keys[at + 3] }
    expected[at], expected[at + 1], expected[at + 2], expected[at + 3] = 'zset', 'hash', 'hash', 'zset'
  end
  for at = first_content, streams - 1 do
    contents[#contents + 1], expected[at] = keys[at], 'hash'
  end
  for at = streams, #keys do expected[at] = 'stream' end
  return partitions, contents, streams, check_types(keys, expected)
end

local function name_of(member) return string.match(member, ' (.*)$') end

-- Returns the last change of a stream as SEQUENCE NONCE, and the lowest sequence
-- that the stream takes next, which a lost counter does not know.
local function last_of(stream)
  if redis.call('EXISTS', stream) == 0 then return '0 ', 1 end
  local last, lowest = head(stream), 1
  local info = redis.call('XINFO', 'STREAM', stream)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      lowest = tonumber(string.match(info[i + 1], '^%d+')) + 1
    end
  end
  return (last[1] or '0') .. ' ' .. (last[2] or ''), lowest
end

-- Whether record a was written after b, or with it and has the later name.
local function newer(a, b)
  if a.sequence ~= b.sequence then return a.sequence > b.sequence end
  return a.member > b.member
end

local function members(partition, min, max) return redis.call('ZRANGEBYLEX', partition.index, min, max) end

local function remove(partition, member)
  local name = name_of(member)
  redis.call('HDEL', partition.versions, name)
  redis.call('HDEL', partition.values, name, name .. ' summary')
  redis.call('ZREM', partition.index, member)
  redis.call('ZREM', partition.expiries, member)
end

local function set_expiry(partition, member, expiry)
  if expiry == '0' then
    redis.call('ZREM', partition.expiries, member)
  else
    redis.call('ZADD', partition.expiries, expiry, member)
  end
end

-- Returns the sequence and the etag of a record, or nothing and whether it has expired. A
-- damaged one is none: this is called between writes, where nothing may fail.
local function parts(partition, name, now)
  local found = redis.call('HGET', partition.versions, name) or ''
  local sequence, expiry, etag = string.match(found, '^(%-?%d+) (%d+) (.*)$')
  -- What is longer is no number of 64 bits: the server takes it for damaged.
  if sequence and math.max(#sequence, #expiry) > 18 then sequence = nil end
  if sequence and expiry ~= '0' and tonumber(expiry) <= now then return nil, nil, true end
  if sequence and redis.call('HEXISTS', partition.values, name) == 1 then return sequence, etag end
end

-- Returns the sequence and the etag of a record, or nothing if it is not there. One with
-- an entry that is damaged or lost is there: its sequence is 0.
local function version(partition, name, now)
  local sequence, etag, expired = parts(partition, name, now)
  if sequence or expired then return sequence, etag end
  if redis.call('HEXISTS', partition.versions, name) == 1 or redis.call('HEXISTS', partition.values, name) == 1 then
    return '0', ''
  end
end

-- Whether the chunks of a content are there and have not expired.
local function is_complete(content, n, now)
  local expiry = redis.call('HGET', content, 'expiry')
  if expiry and tonumber(expiry) <= now then return false end
  for i = 0, n - 1 do
    if redis.call('HEXISTS', content, text(i)) == 0 then return false end
  end
  return true
end

-- The conditions: each takes its arguments and says whether it holds.
local holds = {
  exists = function(partition, take, now)
    local name, expected = take(), take()
    local sequence, etag = version(partition, name, now)
    return sequence ~= nil and (expected == '' or expected == etag)
  end,
  absent = function(partition, take, now) return version(partition, take(), now) == nil end,
  unchanged = function(partition, take, now)
    local name, expected = take(), take()
    return version(partition, name, now) == expected
  end,
  fewer = function(partition, take, now)
    local min, max, n = take(), take(), tonumber(take())
    if redis.call('ZLEXCOUNT', partition.index, min, max) < n then return true end
    local count = 0
    for _, member in ipairs(members(partition, min, max)) do
      if version(partition, name_of(member), now) then count = count + 1 end
    end
    return count < n
  end,
  complete = function(content, take, now) return is_complete(content, tonumber(take()), now) end,
}

-- The writes: each takes its arguments and writes.
local apply = {
  put = function(partition, take, _, sequence)
    local member, name, value, summary = take(), take(), take(), take()
    local etag, expiry, own = take(), take(), take()
    if own == '0' then own = sequence end
    redis.call('HSET', partition.versions, name, own .. ' ' .. expiry .. ' ' .. etag)
    redis.call('HSET', partition.values, name, value)
    if summary ~= '' then
      redis.call('HSET', partition.values, name .. ' summary', summary)
    else
      redis.call('HDEL', partition.values, name .. ' summary')
    end
    redis.call('ZADD', partition.index, 0, member)
    set_expiry(partition, member, expiry)
  end,
  delete = function(partition, take) remove(partition, take()) end,
  clear = function(partition, take)
    local min, max = take(), take()
    for _, member in ipairs(members(partition, min, max)) do remove(partition, member) end
  end,
  trim = function(partition, take, now)
    local min, max, keep = take(), take(), tonumber(take())
    if redis.call('ZLEXCOUNT', partition.index, min, max) <= keep then return end
    local records = {}
    for _, member in ipairs(members(partition, min, max)) do
      local sequence = parts(partition, name_of(member), now)
      if sequence then records[#records + 1] = { sequence = tonumber(sequence), member = member } end
    end
    table.sort(records, newer)
    for i = keep + 1, #records do remove(partition, records[i].member) end
  end,
  expire = function(partition, take, now)
    local min, max, expiry = take(), take(), take()
    for _, member in ipairs(members(partition, min, max)) do
      local sequence, etag = parts(partition, name_of(member), now)
      if sequence then
        redis.call('HSET', partition.versions, name_of(member), sequence .. ' ' .. expiry .. ' ' .. etag)
        set_expiry(partition, member, expiry)
      end
    end
  end,
  -- What has expired stays so. By the clock of Redis the chunks go at the same time.
  keep = function(content, take, now)
    local expiry = take()
    if not is_complete(content, 0, now) or redis.call('EXISTS', content) == 0 then return end
    if expiry == '0' then
      redis.call('HDEL', content, 'expiry')
      redis.call('PERSIST', content)
    else
      redis.call('HSET', content, 'expiry', expiry)
      redis.call('PEXPIRE', content, text(math.max(1, tonumber(expiry) - now)))
    end
  end,
}

-- of_content are the conditions and the writes that are about a content, not a partition.
local of_content = { complete = true, keep = true }

-- Removes some of what expired long ago.
local function remove_outdated(partition, outdated)
  local found = redis.call('ZRANGEBYSCORE', partition.expiries, '-inf', outdated, 'LIMIT', 0, removed_at_once)
  for _, member in ipairs(found) do remove(partition, member) end
end

-- Returns the watermark: 0 if there never was a Txn, and 1 if there were only some of a version that kept none.
local function watermark_of(keys)
  local stored = redis.call('GET', keys[4])
  return stored and tonumber(stored) or redis.call('EXISTS', keys[1])
end

-- Returns the keys of the copies of the watermark, of some locations and with `all` of those that have had a record,
-- and the error of one that has the wrong type.
local function watermark_copies(keys, locations, all)
  local project, copies = string.sub(keys[3], 1, -1 - #':locations'), {}
  local function add(id)
    if id ~= '' then copies[#copies + 1] = project .. '/' .. id .. '/feed/watermark' end
  end
  for _, id in ipairs(locations) do add(id) end
  for _, id in ipairs(all and redis.call('SMEMBERS', keys[3]) or {}) do add(id) end
  for _, key in ipairs(copies) do
    local wrong = check_type(key, 'hash')
    if wrong then return copies, wrong end
  end
  return copies
end

local function commit(keys, argv)
  local lowest_watermark, known = whole_number(argv[6], most_changes), whole_number(argv[7], most_changes)
  if not lowest_watermark or not known then return redis.error_reply(wrong_watermark) end
  local now, position = tonumber(argv[1]), 8
  local function take()
    position = position + 1
    return argv[position]
  end
  local left = #keys - first_partition + 1
  local count = whole_number(take(), left / keys_of_partition)
  if not count then return redis.error_reply(wrong_number) end
  local locations = {}
  for i = 1, count do locations[i] = take() end
  local n_contents = whole_number(take(), left - keys_of_partition * count)
  if not n_contents then return redis.error_reply(wrong_number) end
  local partitions, contents, streams, wrong = open_partitions(keys, count, n_contents)
  if wrong then return wrong end
  local function take_subject(word) return (of_content[word] and contents or partitions)[tonumber(take())] end

  local done = redis.call('GET', keys[2])
  if done then return { 'ok', tonumber(done) } end
  local watermark = watermark_of(keys)
  if watermark > 0 and watermark < lowest_watermark then return { 'behind', watermark } end

  for i = 0, take() - 1 do
    local word = take()
    if not holds[word](take_subject(word), take, now) then return { 'failed', i } end
  end

  -- By the clock, numbers go on where they were even if this Redis has lost its last writes.
  local sequence = math.max(tonumber(redis.call('GET', keys[1]) or '0') + 1, clock(), known + 1)
  local previous = {}
  for i = streams, #keys do
    local lowest
    previous[i], lowest = last_of(keys[i])
    sequence = math.max(sequence, lowest)
  end
  sequence = text(sequence)
  local raises = argv[8] == 'raises' or watermark == 0
  local copies, wrong_copy = watermark_copies(keys, locations, raises)
  if wrong_copy then return wrong_copy end

  -- From here on everything is written.
  redis.call('SET', keys[1], sequence)
  if raises then redis.call('SET', keys[4], sequence) end
  for _, copy in ipairs(copies) do redis.call('HSET', copy, 'number', raises and sequence or text(watermark)) end
  redis.call('SET', keys[2], sequence, 'EX', argv[4])
  local outdated = text(now - tonumber(argv[5]))
  for i, partition in ipairs(partitions) do
    remove_outdated(partition, outdated)
    if locations[i] ~= '' then redis.call('SADD', keys[3], locations[i]) end
  end
  for _ = 1, take() do
    local word = take()
    apply[word](take_subject(word), take, now, sequence)
  end
  for i = streams, #keys do
    redis.call('XADD', keys[i], 'MAXLEN', argv[3], sequence .. '-0',
      'nonce', argv[2], 'previous', previous[i], 'policies', take(), 'datasets', take())
  end
  return { 'ok', tonumber(sequence) }
end

register('commit', commit)
