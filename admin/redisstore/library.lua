-- What the functions of this library have in common. The files of the functions follow, each
-- in a block of its own; each ends with `register`.
--
-- KEYS and ARGV of a function are its parameters keys and argv. Nothing is kept between two
-- calls: what is local to a file is a function or does not change.
--
-- A function has no rights of its own: Redis checks its keys, and each command in it, by the
-- user that calls. But nothing else runs meanwhile. So the time of what the user of a sidecar
-- may call grows with what he sends and with what is stored, never with the product of both,
-- and no pattern comes from a caller: `string.match` with a bad one does not end, and cannot
-- be ended.

-- Returns an error if a key is there and is not of the type that it has to be.
local function check_type(key, expected)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= expected then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ' and has to be a ' .. expected)
  end
end

-- Returns the error of the first key that is not of its type, which are in the same order.
local function check_types(keys, expected)
  for i, of in ipairs(expected) do
    local wrong = check_type(keys[i], of)
    if wrong then return wrong end
  end
end

-- Returns a number that a caller has sent, or nothing if that is no whole number from 0 to most. If it is a number of
-- keys, nothing may be made for each before it is known that there are so many.
local function whole_number(value, most)
  local n = tonumber(value)
  if n and n >= 0 and n <= most and n == math.floor(n) then return n end
end

local wrong_number = 'ERR the number of keys is another one than that of the call'

-- The largest number of a change. Lua has all whole numbers up to its double.
local most_changes = 2 ^ 52
local wrong_watermark = 'ERR a watermark is not the number of a change'

-- Returns the time of this Redis, in Unix milliseconds.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns a number as text, without a fraction or an exponent.
local function text(n) return string.format('%.0f', n) end

-- Returns {sequence, nonce} of the last change of a stream, or {}.
local function head(stream)
  local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  if not last then return {} end
  return { string.match(last[1], '^%d+'), last[2][2] }
end

-- Registers a function of the library. flags are those of Redis.
local function register(name, callback, ...)
  redis.register_function { function_name = library .. '_' .. name, callback = callback, flags = { ... } }
end
