-- Reads at one instant: some records, a collection, or policies with their
-- experiments.
--
-- KEYS[1]  understudy:{project}:  the beginning of all keys
-- ARGV     now    Unix milliseconds, for expiry
--          what is asked for, as one of:
--              get KEY...
--              list KIND PREFIX AFTER LIMIT SEGMENT...
--                  the segments of the collection; - is any
--              load LOCATION
--              policies NAME...
-- A record is {value, etag, sequence, expire}, or {} if it is absent or expired.
-- Replies  get:      {record...}
--          list:     {key, record, key, record...}
--          load:     {head, name, record, {experiment record...}, name, ...}
--          policies: {name, record, {experiment record...}, name, ...}

local base = KEYS[1]
local now = tonumber(ARGV[1])
local what = ARGV[2]

local function read(key)
  local r = redis.call("HMGET", base .. "record:" .. key, "value", "etag", "sequence", "expire")
  if not r[3] then return {} end
  local expire = tonumber(r[4])
  if expire ~= 0 and expire <= now then return {} end
  return r
end

local function split(key)
  local out = {}
  for s in string.gmatch(key, "[^/]+") do out[#out + 1] = s end
  return out
end

local function between(kind, from, to, limit)
  return redis.call("ZRANGEBYLEX", base .. "index:" .. kind, from, to, "LIMIT", 0, limit)
end

local function experiments(name)
  local out = {}
  local prefix = name .. "/experiments/"
  for _, key in ipairs(between("policies/experiments", "[" .. prefix, "(" .. prefix .. "\255", -1)) do
    local r = read(key)
    if r[1] then out[#out + 1] = r end
  end
  return out
end

local ask = {
  get = function()
    local out = {}
    for i = 3, #ARGV do out[#out + 1] = read(ARGV[i]) end
    return out
  end,
  list = function()
    local kind, prefix, after, limit = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
    local segments = { unpack(ARGV, 7) }
    local function matches(key)
      local own = split(key)
      if #own ~= #segments + 1 then return false end
      for i, s in ipairs(segments) do
        if s ~= "-" and s ~= own[i] then return false end
      end
      return true
    end
    local from = "[" .. prefix
    if after >= prefix then from = "(" .. after end
    local out = {}
    for _, key in ipairs(between(kind, from, "(" .. prefix .. "\255", -1)) do
      if matches(key) then
        local r = read(key)
        if r[1] then
          out[#out + 1] = key
          out[#out + 1] = r
          if limit > 0 and #out >= 2 * limit then break end
        end
      end
    end
    return out
  end,
  load = function()
    local location = ARGV[3]
    local prefix = location .. "/policies/"
    local out = { redis.call("GET", base .. "head:" .. location) or "" }
    for _, name in ipairs(between("policies", "[" .. prefix, "(" .. prefix .. "\255", -1)) do
      local r = read(name)
      if r[1] then
        out[#out + 1] = name
        out[#out + 1] = r
        out[#out + 1] = experiments(name)
      end
    end
    return out
  end,
  policies = function()
    local out = {}
    for i = 3, #ARGV do
      out[#out + 1] = ARGV[i]
      out[#out + 1] = read(ARGV[i])
      out[#out + 1] = experiments(ARGV[i])
    end
    return out
  end,
}
return ask[what]()
