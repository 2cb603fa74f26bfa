-- Stores a chunk of a content, which has to be kept by a Txn or expires.
--
-- KEYS  1 content
-- ARGV  1 number of the chunk, from 0
--       2 the chunk
--       3 expiry of the content, in Unix milliseconds by the clock of the caller
--       4 milliseconds until then
--
-- Replies: "ok", also if a Txn has kept the content: then nothing is changed

local function chunk(keys, argv)
  local wrong = check_types(keys, { 'hash' })
  if wrong then return wrong end

  local kept = redis.call('EXISTS', keys[1]) == 1 and redis.call('HEXISTS', keys[1], 'expiry') == 0
  if kept then return 'ok' end
  redis.call('HSET', keys[1], 'expiry', argv[3], argv[1], argv[2])
  redis.call('PEXPIRE', keys[1], argv[4])
  return 'ok'
end

register('chunk', chunk)
