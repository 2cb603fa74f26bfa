-- Keeps what the nodes of a location report, by the clock of Redis.
--
-- KEYS[1]  understudy:{project}:nodes:<location>
-- KEYS[2]  understudy:{project}:head:<location>
-- ARGV     report NAME NODE   stores a report
--          list KEPT          the reports of the last KEPT seconds; older ones go
-- Replies  report: cursor of the location's last change
--          list:   {now in Unix microseconds, name, report, name, report...}

local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]

if ARGV[1] == "report" then
  redis.call("HSET", KEYS[1], ARGV[2], string.format("%.0f", now) .. " " .. ARGV[3])
  return redis.call("GET", KEYS[2]) or ""
end

local oldest = now - tonumber(ARGV[2]) * 1000000
local all = redis.call("HGETALL", KEYS[1])
local out = { string.format("%.0f", now) }
for i = 1, #all, 2 do
  local at = tonumber(string.match(all[i + 1], "^%d+"))
  if at and at > oldest then
    out[#out + 1] = all[i]
    out[#out + 1] = all[i + 1]
  else
    redis.call("HDEL", KEYS[1], all[i])
  end
end
return out
