-- slotted: what slot_window and ar1 share, the twin of slotted.rs. Times in the caller's unit become
-- ticks, as short as the size of `now` allows; the life in Redis is the caller's unit by the home's
-- clock.
local MAX_LIFE = 31622400000000
local MAX_LIMITS_BYTES = 8192

-- A time in ticks; a JSON number is a double, so the decimal it was is the one it is nearest to.
local function slotted_span(name, time, places)
  local tick = 10 ^ places
  local ticks = floor(time * tick + 0.5)
  if ticks / tick ~= time and time > 0 then
    fail(name, places == 0 and 'a multiple of 1' or string.format('a multiple of 1e-%d', places),
      quote(string.format('%.17g', time)))
  elseif ticks < 1 or ticks >= EXACT then
    local shown = places == 0 and '1' or string.format('1e-%d', places)
    fail(name, 'above 0 and below 2^53 ticks of ' .. shown, quote(string.format('%.17g', time)))
  end
  return ticks
end

local function slotted_names(fields)
  return fields[1][1] .. ', ' .. fields[2][1] .. ', ' .. fields[3][1]
end

-- The three numbers of each limit.
local function slotted_limits(text, fields)
  if #text > MAX_LIMITS_BYTES then
    fail('limits', string.format('at most %d bytes', MAX_LIMITS_BYTES), digits(#text))
  end
  local right, limits = pcall(cjson.decode, text)
  local function wrong()
    fail('limits', 'a JSON array of limits such as [[' .. slotted_names(fields) .. ']]', quote(text))
  end
  -- The decoder takes more for numbers than JSON does.
  local odd = string.find(string.lower(text), 'nan') or string.find(string.lower(text), 'inf')
  if odd or string.find(text, '0[xX]') then
    wrong()
  end
  if not right or type(limits) ~= 'table' or string.byte(text, (string.find(text, '%S'))) ~= 91 then
    wrong()
  end
  for place = 1, #limits do
    local limit, numbers = limits[place], {}
    for index, field in ipairs(fields) do
      local value = type(limit) == 'table' and (#limit == 3 and limit[index] or nil)
      for name = 2, #field do
        value = value or type(limit) == 'table' and limit[field[name]]
      end
      if type(value) ~= 'number' then
        wrong()
      end
      numbers[index] = value
    end
    limits[place] = numbers
  end
  if #limits < 1 or #limits > 32 then
    fail('limits', '1 to 32 of them', digits(#limits))
  end
  return limits
end

-- How many decimals a tick has: as many as leave the time below 2^53 ticks.
local PLACES = { 6, 3, 0 }

local function slotted_places(text)
  for index = 1, 3 do
    local places = PLACES[index]
    local ticks, _, negative = decimal(text, places)
    if ticks and not negative and ticks < EXACT then
      return places, ticks
    end
  end
  return decimal(text, 0) and 0, nil
end

-- The same by the times of limits, for a call without a clock.
local function slotted_places_of(limits)
  for _, places in ipairs(PLACES) do
    local fits = true
    for _, numbers in ipairs(limits) do
      fits = fits and max(numbers[2], numbers[3]) * 10 ^ places < EXACT and min(numbers[2], numbers[3]) >= 0
    end
    if fits then
      return places
    end
  end
  return 0
end

-- The rules of a text of limits: each limit once, filed under all its numbers and the namespace.
local function slotted_rules(kind, namespace, text, places)
  local name = kind.name .. ' ' .. (places or '-') .. ' ' .. #namespace .. ' ' .. namespace .. text
  local rules = read_before[name]
  if rules then
    return rules
  end
  rules = { longest = 0 }
  local seen, limits = {}, slotted_limits(text, kind.fields)
  places = places or slotted_places_of(limits)
  for place, numbers in ipairs(limits) do
    local rule = kind.rule(numbers, places, 'limits[' .. digits(place - 1) .. '] ')
    rule.spacing = 0
    rule.tag = kind.letter .. namespace .. ':' .. pack(numbers[1], numbers[2], numbers[3])
    if not seen[rule.tag] then
      seen[rule.tag] = true
      rules[#rules + 1] = rule
      rules.longest = max(rules.longest, rule.period)
    end
  end
  return remember(name, rules)
end

-- The name of the state: `NAMESPACE:{KEY}`, in the key's own slot. Where no such name is in it, the state is at the
-- key itself.
local function slotted_name(namespace, key)
  if key == '' or string.find(key, '}', 1, true) or string.find(namespace, '{', 1, true) then
    return key
  end
  return namespace .. ':{' .. key .. '}'
end

-- Whether a value holds a record of one of these rules that has not expired.
local function slotted_holds(value, rules, home)
  local items = { pcall(unpack_value, value) }
  for _, item in ipairs(items) do
    local kept = type(item) == 'table' and type(item[1]) == 'table' and item or {}
    for _, rule in ipairs(rules) do
      if item == rule.tag then
        return true
      end
      for _, record in ipairs(kept) do
        if record[1] == rule.tag and record[2] > home then
          return true
        end
      end
    end
  end
  return false
end

-- Whether the key itself holds a state of these rules, as earlier releases left it. What else is there belongs to the
-- application.
local function slotted_is_at(key, rules, home)
  local value = pcall_redis('GET', key)
  if type(value) == 'table' then
    value = pcall_redis('HGET', key, HEAD)
  end
  return type(value) == 'string' and string.byte(value) == VERSION and slotted_holds(value, rules, home)
end

-- Whether a call goes on at the key itself: there are states of its rules, and none at the name.
local function slotted_goes_on(name, key, rules, home, found, kept)
  -- A value that is read without its other records has those of the rules and no others.
  local is_there = found and not (kept.cells and kept.kept) or found and slotted_is_at(name, rules, home)
  return name ~= key and not is_there and slotted_is_at(key, rules, home)
end

local function slotted_forget(key, rules, home, least)
  local entry = open(key, rules, home, least, false, true)
  for place, rule in ipairs(rules) do
    if rule.algorithm.log then
      log_drop_before(entry.cells[place].state, entry.cells[place].state.len)
    else
      entry.cells[place].state = rule.algorithm.fresh()
    end
  end
  write(entry, home, 0, least)
end

local function slotted_run(kind, keys, args)
  local home, _, least = clock(args)
  local key = one_key(keys)
  if #args ~= 4 and #args ~= 5 then
    fail('arguments', '4 or 5 (count, namespace, limits, now, want_wait)', digits(#args))
  end
  local want_wait = args[5] and args[5] ~= '' and args[5] ~= '0'
  local count, exact, negative = decimal(args[1], 0)
  if not count or not exact or count >= EXACT then
    fail('count', 'an integer of at most 9007199254740991', quote(args[1]))
  end
  local places, t = slotted_places(args[4])
  local name = slotted_name(args[2], key)
  if negative then
    -- A reset needs no clock.
    local rules = slotted_rules(kind, args[2], args[3])
    slotted_forget(name, rules, home, least)
    if name ~= key and slotted_is_at(key, rules, home) then
      slotted_forget(key, rules, home, least)
    end
    return want_wait and 0 or false
  end
  local rules = slotted_rules(kind, args[2], args[3], places)
  if not t then
    fail('now', 'a time from 0 and below 2^53 ticks of 1', quote(args[4]))
  end
  local exact = kind.exact and count > 0
  local allowed, _, wait, reset_after, _, kept, found, dirty =
    ask(name, rules, home, least, t, count, 'uniform', 1, exact)
  if slotted_goes_on(name, key, rules, home, found, kept) then
    -- It goes on there until it expires, so that servers of both releases count together.
    name = key
    allowed, _, wait, reset_after, _, kept, found, dirty =
      ask(name, rules, home, least, t, count, 'uniform', 1, exact)
  end
  local life = MAX_LIFE
  if t > 0 then
    -- Redis counts in milliseconds: a double is close enough.
    life = min((kind.exact and rules.longest or reset_after) * (home / t), MAX_LIFE)
  end
  keep_for(name, rules, kept, found, dirty, home, life, least)
  if not want_wait then
    return not allowed and 1 or false
  end
  return allowed and 0 or wait == NEVER and -1 or ceil(wait / 10 ^ places)
end
