-- common: what the scripts of permits share.
--
-- A key is a sorted set of the permits held under it. A member is `ID:MS`: the permit's id, and how long its lease
-- is, in milliseconds. Its score is the microsecond at which the lease ends, by this server's clock. The key expires
-- a second after the last of them.
local call, key = redis.call, KEYS[1]
-- Milliseconds that a key outlives its last lease, so that a clock set back a little does not lose it.
local MARGIN = 1000
-- The longest lease in milliseconds, and the most that may be held of a key.
local MAX_LEASE, MAX_COUNT = 86400000, 1000000
-- The most leases that one call corrects after the clock was set back.
local MAX_CORRECTED = 1000

-- Never through tostring: it prints 14 digits.
local function digits(number)
  return string.format('%.0f', number)
end

local function clock()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Refuses the whole call if the user may not run a command of it: a script is not rolled back.
local function need(...)
  if not redis.acl_check_cmd(...) then
    error({ err = 'NOPERM this user has no permissions to run ' .. (...) .. ', which this call needs' }, 0)
  end
end

-- A number among the arguments.
local function whole(name, text, least, most)
  local number = tonumber(text)
  if not number or number ~= math.floor(number) or number < least or number > most then
    error({ err = 'ERR ' .. name .. ': expected ' .. digits(least) .. ' to ' .. digits(most) .. ', found '
      .. string.format('%q', text or '') }, 0)
  end
  return number
end

-- How long the lease of a member is, in microseconds. What is not ours has none, and ends.
local function lease_of(member)
  return (tonumber(string.match(member, ':(%d+)$')) or 0) * 1000
end

-- The member whose lease ends last, and when.
local function last()
  local found = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- Lets the key live for as long as its last lease. Law: who writes calls this last.
local function outlive(now)
  local member, ends = last()
  if member then
    local lives = math.min(math.max(math.ceil((ends - now) / 1000), 0), MAX_LEASE)
    call('PEXPIRE', key, digits(lives + MARGIN))
  end
end

-- Somebody may have made a key of ours last for ever.
local function mend(now)
  if call('PTTL', key) == -1 then
    outlive(now)
  end
end

-- Away with the leases that have ended. If the last ends later than its whole lease from now on, the clock was set
-- back: none lasts longer than its whole lease. The first call here is what refuses a key of another type.
local function tidy(now)
  call('ZREMRANGEBYSCORE', key, '-inf', digits(now))
  local member, ends = last()
  if not member or ends <= now + lease_of(member) then
    return
  end
  local ahead = call('ZREVRANGEBYSCORE', key, '+inf', '(' .. digits(now), 'WITHSCORES', 'LIMIT', 0, MAX_CORRECTED)
  for place = 1, #ahead, 2 do
    local whole_lease = now + lease_of(ahead[place])
    if tonumber(ahead[place + 1]) > whole_lease then
      call('ZADD', key, 'XX', digits(whole_lease), ahead[place])
    end
  end
  outlive(now)
end
