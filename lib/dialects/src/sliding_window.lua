-- sliding_window KEY (size_ms limit)+ [extra_ttl_ms]: the twin of sliding_window.rs.
local sliding_window
do
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

-- The log that all windows of a key share. Its anchor is as long before the newest event as events are
-- kept: for the longest window of the calls that charged it since it was last empty.
local window_log = { log = NARROW, anchored = true }

-- The windows as rules and the keeper of their log, how long the key is kept, and what the clock must
-- have run.
local function window_rules(args)
  local extra = #args % 2 == 1 and window_micros('extra_ttl', args[#args]) or 0
  local rules, largest = {}, 0
  for index = 1, floor(#args / 2) do
    local place = digits(index)
    local size = window_micros('size ' .. place, args[2 * index - 1])
    local count = window_count('limit ' .. place, args[2 * index])
    if size >= 140737488355327 then
      fail('size ' .. place, 'a window of at most 2^47us (1628 days)', quote(args[2 * index - 1]))
    end
    largest = max(largest, size)
    rules[index] = { algorithm = sliding, count = count, period = size + 1, grain = 1 }
  end
  if #rules > 32 then
    fail('windows', '1 to 32 of them', digits(#rules))
  end
  local kept = rules[1].period - 1 + extra
  local keeper = { algorithm = window_log, count = EXACT, period = largest + 1, grain = 1, spacing = 0, tag = 'W' }
  return { rules = rules, keeper = { keeper }, own = largest + 1, life = max(kept, largest), kept = kept }
end

-- What each window counts of the logs that earlier releases kept, one a window: they stay until they
-- expire. An event may be in several of them, so the log that has most of a window counts.
local function window_earlier(entry, rules, t)
  local used = {}
  for _, record in ipairs(entry.kept or {}) do
    if string.byte(record[1]) == 119 then
      local log = open_log({ algorithm = sliding, tag = record[1] }, entry.key, record[3], true)
      for index, rule in ipairs(rules) do
        local _, held = sliding.look(rule, log, t)
        used[index] = max(used[index] or 0, held)
      end
    end
  end
  return used
end

-- The first window without room, 0 if all have it, and whether the clock of the log was corrected.
local function window_refuses(rules, log, t, earlier)
  local limited_by, corrected = 0, false
  for index, rule in ipairs(rules) do
    corrected = sliding.correct(rule, log, t) or corrected
    local _, used = sliding.look(rule, log, t)
    if limited_by == 0 and used + (earlier[index] or 0) >= rule.count then
      limited_by = index
    end
  end
  return limited_by, corrected
end

-- Records an event; what has left the longest window goes.
local function window_record(keeper, log, t)
  log_drop_before(log, (sliding.look(keeper, log, t)))
  local now = log_now(log, t)
  log_append(log, now, now, 1)
end

function sliding_window(keys, args)
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
  local keeper, earlier = policy.keeper[1], {}
  local log, found = open_one(key, keeper)
  local kept = log
  if not log then
    kept = open(key, policy.keeper, t, least)
    log, found, earlier = kept.cells[1].state, kept.found, window_earlier(kept, policy.rules, t)
  end
  local longest = log.len > 0 and log.newest - log.anchor or 0
  local is_longer = longest > policy.own and log_until(log, log.last + longest, t) > 0
  keeper.period = is_longer and longest or policy.own
  local limited_by, dirty = window_refuses(policy.rules, log, t, earlier)
  local life = policy.life
  if limited_by == 0 then
    window_record(keeper, log, t)
    dirty = true
  end
  log.anchor = log.newest - keeper.period
  if is_longer or limited_by > 0 then
    local until_new = sliding.reset_after(keeper, log, t)
    life = limited_by > 0 and until_new or max(life, until_new)
  end
  keep_for(key, policy.keeper, kept, found, dirty, t, life, least)
  return limited_by
end
end
