-- renew KEY most lease_ms id...: lets leases begin anew. One that this server forgot takes a place again if fewer
-- than `most` are taken. Answers for each id 1 if it is held, else 0.
local most = whole('most', ARGV[1], 1, MAX_COUNT)
local lease = whole('lease', ARGV[2], 1, MAX_LEASE)
local ends_with = ':' .. digits(lease)
need('ZREMRANGEBYSCORE', key, '0', '0')
need('ZADD', key, '0', ends_with)
need('PEXPIRE', key, '1')

local now = clock()
tidy(now)
local ends, count, answers = digits(now + lease * 1000), call('ZCARD', key), {}
for place = 3, #ARGV do
  local member = ARGV[place] .. ends_with
  if call('ZSCORE', key, member) then
    call('ZADD', key, 'XX', ends, member)
    answers[place - 2] = 1
  elseif count < most then
    call('ZADD', key, ends, member)
    count = count + 1
    answers[place - 2] = 1
  else
    answers[place - 2] = 0
  end
end
outlive(now)
return answers
