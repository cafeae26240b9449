-- sliding_window KEY (size_ms limit)+ [extra_ttl_ms]: the twin of sliding_window.rs.
local function window_micros(name, text)
  local micros, _, negative = decimal(text, 3)
  if not micros or negative or micros >= EXACT then
    fail(name, 'a number of milliseconds from 0 to 9007199254740', quote(text))
  end
  return micros
end

local function window_count(name, text)
  local count, exact, negative = decimal(text, 0)
  count = count and (negative and 0 or exact and count or count + 1)
  if not count or count > EXACT then
    fail(name, 'a number of at most 9007199254740992', quote(text))
  end
  return count
end

-- The windows as rules, how long the key is kept, and what the clock must have run.
local function window_rules(args)
  local extra = #args % 2 == 1 and window_micros('extra_ttl', args[#args]) or 0
  local rules, seen, largest = {}, {}, 0
  for index = 1, floor(#args / 2) do
    local place = digits(index)
    local size = window_micros('size ' .. place, args[2 * index - 1])
    local count = window_count('limit ' .. place, args[2 * index])
    if size >= 140737488355327 then
      fail('size ' .. place, 'a window of at most 2^47us (1628 days)', quote(args[2 * index - 1]))
    end
    local repeated = seen[size] or 0
    seen[size] = repeated + 1
    largest = max(largest, size)
    local tag = 'w' .. (repeated == 0 and pack(size) or pack(size, repeated))
    rules[index] = { algorithm = sliding, count = count, period = size + 1, grain = 1, spacing = 0, tag = tag }
  end
  if #rules > 32 then
    fail('windows', '1 to 32 of them', digits(#rules))
  end
  local kept = rules[1].period - 1 + extra
  return { rules = rules, life = max(kept, largest), kept = kept }
end

local function sliding_window(keys, args)
  local t, _, least = clock(args)
  local key = one_key(keys)
  if #args < 2 then
    fail('arguments', '2 or more (size, limit, ..., extra_ttl)', digits(#args))
  end
  local text = 'window ' .. #args .. ' ' .. table.concat(args, '\0')
  local policy = read_before[text] or remember(text, window_rules(args))
  if policy.kept > t then
    fail('size 1 and extra_ttl', 'together at most the time since the epoch, in microseconds', quote(digits(policy.kept)))
  end
  local allowed, _, _, reset_after, limited_by, kept, found, dirty = ask(key, policy.rules, t, least, t, 1, 'binary', 1)
  keep_for(key, policy.rules, kept, found, dirty, t, allowed and policy.life or reset_after, least)
  return limited_by
end
