-- api_counter {api:TOKEN} threshold: the twin of api_counter.rs. The count of a minute is at :MM, what
-- was used at :data; `last` there tells which minute was counted last.
local API_MINUTE = 60000000
local DATA_LIFE = '31622400000'

local function api_minute_key(key, start)
  return key .. ':' .. digits(floor(start / API_MINUTE) % 60)
end

local function api_number(text, key)
  local number = text and string.find(text, '^%d+$') and tonumber(text)
  if text and not number then
    error({ err = 'WRONGTYPE Operation against a key holding the wrong kind of value: ' .. quote(key) }, 0)
  end
  return number or nil
end

-- What was counted in the minute that began at `start`.
local function api_count(key, start)
  local name = api_minute_key(key, start)
  return api_number(call('GET', name), name) or 0
end

local function api_counter(keys, args)
  local t, _, least = clock(args)
  local key = one_key(keys)
  if sub(key, 1, 5) ~= '{api:' or sub(key, -1) ~= '}' then
    fail('key', '{api:TOKEN}', quote(key))
  elseif #args ~= 1 then
    fail('arguments', '1 (threshold)', digits(#args))
  end
  local rule = { algorithm = fixed, count = integer('threshold', args[1], 0, EXACT), period = API_MINUTE, clock = true }
  local data = key .. ':data'
  local held = call('HMGET', data, 'last', 'ops')
  local last, ops = api_number(held[1], data), api_number(held[2], data) or 0
  local now, ahead, start = floor(t / 1000000), 0, t - t % API_MINUTE
  if last then
    -- The minute counted last may still be to come, if the clock was set back.
    local counted = last * 1000000 - last * 1000000 % API_MINUTE
    ahead = counted <= t + API_MINUTE and last or 0
    start = max(start, counted)
  end
  local state = { start, api_count(key, start) }
  local corrected = fixed.correct(rule, state, t)
  local ends = fixed.look(rule, state, t)
  local allowed = fixed.fits(rule, state, 1, ends)
  if allowed then
    fixed.charge(rule, state, t, 1, ends)
    ends = fixed.look(rule, state, t)
    last, ops = max(ahead, now, floor(state[1] / 1000000)), ops + 1
  elseif corrected then
    -- The minute that is counted from now on.
    last = floor(state[1] / 1000000)
  end
  if allowed or corrected then
    need('HSET', data, 'last', '')
    need('PEXPIRE', data, 1)
    call('SET', api_minute_key(key, state[1]), digits(state[2]), 'PX', digits(ceil((ends - t) / 1000) + least))
    call('HSET', data, 'last', digits(last), 'ops', digits(ops))
    call('PEXPIRE', data, DATA_LIFE)
  end
  local counted = ends and ends - 1 or t
  return { allowed and 1 or 0, ends and state[2] or 0, floor(counted / API_MINUTE) % 60, last or false, ops }
end
