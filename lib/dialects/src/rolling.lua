-- rolling KEY... mode n now_us min_difference_us... max... bucket_interval_us... buckets...: the twin
-- of rolling.rs. Each key holds the state of its own limit.
local ROLLING_MODES = { ['0'] = 'uniform', ['1'] = 'binary', ['2'] = 'nary' }

-- bucket_interval times buckets, whole but for what a double lost.
local function rolling_interval(name, text, buckets)
  local step, exact, negative = decimal(text, 0)
  local interval = step and (exact and step * buckets or floor(tonumber(text) * buckets + 0.5))
  local off = interval and not exact and math.abs(tonumber(text) * buckets - interval) > 1e-12 * interval
  if not interval or negative or off or interval < 1 or interval >= EXACT then
    fail(name, 'a number that times buckets is a whole number of microseconds from 1 to 9007199254740991', quote(text))
  end
  return interval
end

local function rolling_rule(args, each, index)
  local place = ' ' .. digits(index)
  local spacing = integer('min_difference' .. place, args[3 + index], 0, EXACT - 1)
  local count = integer('max' .. place, args[3 + each + index], 1, EXACT)
  local buckets = integer('buckets' .. place, args[3 + 3 * each + index], 1, 10000000)
  local period = rolling_interval('bucket_interval' .. place, args[3 + 2 * each + index], buckets)
  local rule = { algorithm = rolling, count = count, period = period, spacing = spacing, tag = 'r' .. pack(period, buckets) }
  rolling.build(rule, buckets)
  return rule
end

local function rolling_rules(keys, args)
  local rules, each = {}, #keys
  for index = 1, each do
    rules[index] = rolling_rule(args, each, index)
    -- A key is opened for its own rule alone.
    rules[index].alone = { rules[index] }
  end
  return rules
end

-- A call of one limit.
local function rolling_alone(key, rules, home, t, cost, mode, least)
  local rule = rules[1]
  local state, found = open_one(key, rule)
  local kept = state
  if not state then
    kept = open(key, rules, home, least)
    state, found = kept.cells[1].state, kept.found
  end
  if mode == 'uniform' then
    refuse_inexact(rule, state, t, cost)
  end
  local _, _, charged, remaining, wait, reset_after, dirty = step(rule, state, t, cost, mode, false, cost)
  keep_for(key, rules, kept, found, dirty, home, max(seconds_up(rule.life) * 1000000, reset_after), least)
  -- More than ever fits: then until nothing is left.
  return { remaining, charged, wait < NEVER and cost <= rule.count and wait or reset_after }
end

local function rolling_window(keys, args)
  local home, _, least = clock(args)
  local each = #keys
  if each < 1 then
    fail('keys', '1 or more', '0')
  elseif #args ~= 3 + 4 * each then
    fail('arguments', string.format('%d (mode, n, now, and 4 for each key)', 3 + 4 * each), digits(#args))
  elseif each > 32 then
    fail('keys', '1 to 32 of them', digits(each))
  end
  local mode = ROLLING_MODES[args[1]]
  if not mode then
    fail('mode', '0 (uniform), 1 (binary) or 2 (nary)', quote(args[1]))
  end
  local cost = integer('n', args[2], 1, EXACT - 1)
  local t = integer('now', args[3], 0, EXACT - 1)
  local text = 'rolling ' .. #args .. ' ' .. table.concat(args, '\0', 4)
  local rules = read_before[text] or remember(text, rolling_rules(keys, args))
  if #rules == 1 and rules[1].spacing == 0 then
    return rolling_alone(keys[1], rules, home, t, cost, mode, least)
  end
  local entries, cells = {}, {}
  for index = 1, #rules do
    for before = 1, index - 1 do
      if keys[before] == keys[index] then
        fail('keys', 'each once', quote(keys[index]))
      end
    end
    local entry = open(keys[index], rules[index].alone, home, least)
    entries[index], cells[index] = entry, entry.cells[1]
  end
  local granted = assess(rules, cells, t, cost, mode)
  if mode == 'uniform' then
    for index = 1, #rules do
      refuse_inexact(rules[index], cells[index].state, t, cost)
    end
  end
  local details = {}
  local charged, remaining = settle(rules, cells, t, charges(cost, mode, granted), cost, mode, details)
  local wait = 0
  for index = 1, #rules do
    -- Several keys are written, so each must be writable before the first is.
    need('SET', keys[index], '', 'PX', 1)
  end
  for index = 1, #rules do
    local detail, rule = details[index], rules[index]
    -- More than ever fits: then until nothing is left.
    local own = detail[3] < NEVER and cost <= rule.count and detail[3] or detail[4]
    wait = max(wait, own)
    local life = max(seconds_up(rule.life) * 1000000, detail[4])
    keep_for(keys[index], rule.alone, entries[index], entries[index].found, changed(entries[index]), home, life, least)
  end
  return { remaining, charged, wait }
end
