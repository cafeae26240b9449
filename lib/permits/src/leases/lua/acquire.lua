-- acquire KEY id most lease_ms: takes a place if fewer than `most` are taken.
-- Answers {1, 0} if it did; {0, microseconds until the first lease ends} if all are taken; {2, 0} if the id is.
local id = ARGV[1]
local most = whole('most', ARGV[2], 1, MAX_COUNT)
local lease = whole('lease', ARGV[3], 1, MAX_LEASE)
local member = id .. ':' .. digits(lease)
need('ZREMRANGEBYSCORE', key, '0', '0')
need('ZADD', key, 'NX', '0', member)
need('PEXPIRE', key, '1')

local now = clock()
tidy(now)
if call('ZSCORE', key, member) then
  return { 2, 0 }
end
if call('ZCARD', key) >= most then
  mend(now)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return { 0, tonumber(first[2]) - now }
end
call('ZADD', key, 'NX', digits(now + lease * 1000), member)
outlive(now)
return { 1, 0 }
