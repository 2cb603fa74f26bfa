-- Makes one Txn: checks every condition, then makes every write. Redis does not
-- take back what a failed script has done, so all that can fail is checked first.
--
-- KEYS[1]  understudy:{project}:  the beginning of all keys
-- ARGV     now        Unix milliseconds, for expiry
--          id         of the Txn
--          kept       seconds for which the Txn can be repeated
--          stream     number of changes to keep for a location
--          grace      milliseconds for which Redis keeps an expired record
--          then, one after the other:
--          count, and for each condition: word, arguments
--              exists KEY ETAG | absent KEY | unchanged KEY SEQUENCE
--              fewer KIND PREFIX N
--          count, and for each write: word, arguments
--              put KIND KEY VALUE ETAG EXPIRE SEQUENCE | delete KIND KEY
--              clear KIND PREFIX
--          count, and for each event: LOCATION NONCE POLICIES
-- Replies  {"ok", sequence} | {"failed", index from 0} | {"damaged", key}

local base = KEYS[1]
local at = 0
local function take()
  at = at + 1
  return ARGV[at]
end

local now = tonumber(take())
local id, kept, stream, grace = take(), take(), take(), tonumber(take())

local made = redis.call("GET", base .. "done:" .. id)
if made then
  return { "ok", made }
end

local function typed(key, want)
  local is = redis.call("TYPE", key).ok
  return is == want or is == "none"
end

-- A record as {etag, sequence}, or nil if it is absent or expired.
local function read(key)
  local r = redis.call("HMGET", base .. "record:" .. key, "etag", "sequence", "expire")
  if not r[2] then return nil end
  local expire = tonumber(r[3])
  if expire ~= 0 and expire <= now then return nil end
  return { etag = r[1], sequence = r[2] }
end

-- Every name in an index that begins with prefix and has no further slash.
local function members(kind, prefix)
  return redis.call("ZRANGEBYLEX", base .. "index:" .. kind, "[" .. prefix, "(" .. prefix .. "\255")
end

local function count(kind, prefix)
  local n = 0
  for _, key in ipairs(members(kind, prefix)) do
    if read(key) then n = n + 1 end
  end
  return n
end

-- First pass: what is it all about, and is every key of the type that it should
-- be? Nothing is written here.
local conditions, writes, events = {}, {}, {}
local arguments = {
  exists = 2, absent = 1, unchanged = 2, fewer = 3,
  put = 6, delete = 2, clear = 2,
}
local function statements(into)
  for i = 1, tonumber(take()) do
    local s = { word = take() }
    for j = 1, arguments[s.word] do s[j] = take() end
    into[i] = s
  end
end
statements(conditions)
statements(writes)
for i = 1, tonumber(take()) do
  events[i] = { location = take(), nonce = take(), policies = take() }
end

local function damaged()
  if not typed(base .. "sequence", "string") then return base .. "sequence" end
  for _, c in ipairs(conditions) do
    local key = base .. "record:" .. c[1]
    if c.word == "fewer" then
      key = base .. "index:" .. c[1]
      if not typed(key, "zset") then return key end
    elseif not typed(key, "hash") then
      return key
    end
  end
  for _, w in ipairs(writes) do
    if not typed(base .. "index:" .. w[1], "zset") then return base .. "index:" .. w[1] end
    if w.word ~= "clear" and not typed(base .. "record:" .. w[2], "hash") then
      return base .. "record:" .. w[2]
    end
  end
  for _, e in ipairs(events) do
    if not typed(base .. "changes:" .. e.location, "stream") then return base .. "changes:" .. e.location end
    if not typed(base .. "head:" .. e.location, "string") then return base .. "head:" .. e.location end
  end
  return nil
end
local bad = damaged()
if bad then
  return { "damaged", bad }
end

local holds = {
  exists = function(c)
    local r = read(c[1])
    return r and (c[2] == "" or r.etag == c[2])
  end,
  absent = function(c) return not read(c[1]) end,
  unchanged = function(c)
    local r = read(c[1])
    return r and r.sequence == c[2]
  end,
  fewer = function(c) return count(c[1], c[2]) < tonumber(c[3]) end,
}
for i, c in ipairs(conditions) do
  if not holds[c.word](c) then
    return { "failed", i - 1 }
  end
end

-- Second pass: the writes.
local sequence = redis.call("INCR", base .. "sequence")

local function remove(kind, key)
  redis.call("DEL", base .. "record:" .. key)
  redis.call("ZREM", base .. "index:" .. kind, key)
end

local make = {
  put = function(w)
    local kind, key, value, etag, expire, own = w[1], w[2], w[3], w[4], tonumber(w[5]), w[6]
    if own == "0" then own = sequence end
    local record = base .. "record:" .. key
    redis.call("HSET", record, "value", value, "etag", etag, "sequence", own, "expire", w[5])
    if expire == 0 then
      redis.call("PERSIST", record)
    else
      redis.call("PEXPIREAT", record, string.format("%.0f", expire + grace))
    end
    redis.call("ZADD", base .. "index:" .. kind, 0, key)
  end,
  delete = function(w) remove(w[1], w[2]) end,
  clear = function(w)
    for _, key in ipairs(members(w[1], w[2])) do remove(w[1], key) end
  end,
}
for _, w in ipairs(writes) do make[w.word](w) end

for _, e in ipairs(events) do
  local head = base .. "head:" .. e.location
  local previous = redis.call("GET", head) or ""
  redis.call("XADD", base .. "changes:" .. e.location, "MAXLEN", "~", stream, sequence .. "-0",
    "nonce", e.nonce, "previous", previous, "policies", e.policies)
  redis.call("SET", head, sequence .. "-" .. e.nonce)
end

redis.call("SET", base .. "done:" .. id, sequence, "EX", kept)
return { "ok", tostring(sequence) }
