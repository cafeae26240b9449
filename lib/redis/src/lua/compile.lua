-- compile: a policy, as text or in compact form, to rules. Everything is checked here, so nothing that
-- decides checks again. Compact: a JSON list of [algorithm, count, period, option, spacing, tag].
local MAX_POLICY = 8192

local function compact_fail(place, expected, limit)
  local shown, text = pcall(cjson.encode, limit)
  text = type(limit) == 'table' and limit.text or shown and text or 'something else'
  fail('policy', string.format('%s in limit %d', expected, place), quote(text))
end

local function compile_limit(limit, place)
  if type(limit) ~= 'table' then
    compact_fail(place, 'a list', limit)
  end
  local name, count, period, option, spacing, tag = limit[1], limit[2], limit[3], limit[4], limit[5], limit[6]
  local algorithm = algorithms[name]
  if not algorithm then
    compact_fail(place, 'an algorithm this script has', limit)
  elseif not is_whole(count, 1, EXACT) then
    compact_fail(place, 'a count from 1 to 2^53', limit)
  elseif not is_whole(period, 1, EXACT - 1) then
    compact_fail(place, 'a period of at least 1us and below 2^53us', limit)
  elseif not is_whole(spacing, 0, EXACT - 1) then
    compact_fail(place, 'a spacing below 2^53us', limit)
  elseif type(tag) ~= 'string' or not string.find(tag, '^%x%x%x%x%x%x%x%x%a?$') then
    compact_fail(place, 'a tag', limit)
  end
  local rule = {
    algorithm = algorithm, count = count, period = period, spacing = spacing,
    tag = struct.pack('>I4', tonumber(sub(tag, 1, 8), 16)) .. sub(tag, 9),
  }
  local expected = algorithm.build(rule, option)
  if expected then
    compact_fail(place, expected, limit)
  end
  return rule
end

local function compile_limits(limits)
  local rules, tags, grain = {}, {}, nil
  if #limits < 1 or #limits > 32 then
    fail('policy', '1 to 32 limits', string.format('%d', #limits))
  end
  for place = 1, #limits do
    local rule = compile_limit(limits[place], place)
    local id = sub(rule.tag, 1, 4)
    if tags[id] then
      local expected = 'limits that differ in name, algorithm or period; limits %d and %d would share one state'
      fail('policy', string.format(expected, tags[id], place), 'such limits')
    end
    if rule.grain then
      if grain and rule.grain ~= grain then
        fail('policy', 'one grain for all limits of a policy', 'several')
      end
      grain = rule.grain
    end
    tags[id], rules[place] = place, rule
  end
  return rules
end

local function compile_new(policy)
  if #policy > MAX_POLICY then
    fail('policy', string.format('at most %d bytes', MAX_POLICY), string.format('%d', #policy))
  end
  if string.byte(policy) == 91 then
    local right, limits = pcall(cjson.decode, policy)
    if not right or type(limits) ~= 'table' then
      fail('policy', 'a JSON list of limits', quote(policy))
    end
    return compile_limits(limits)
  end
  return compile_limits(parse(policy))
end

-- Policies that were compiled before; a script knows none.
local MAX_COMPILED = 1000
local compiled, compiled_count = {}, 0

local function compile(policy)
  local rules = compiled[policy]
  if not rules then
    rules = compile_new(policy)
    if compiled_count >= MAX_COMPILED then
      compiled, compiled_count = {}, 0
    end
    compiled[policy], compiled_count = rules, compiled_count + 1
  end
  return rules
end
