-- all: the call `tollgate_all KEY... (policy cost)...`, all or none; the twin of together.rs.
-- The least time after which all parts fit, as together.rs finds it.
local function wait_for_all(entries, costs, waits, t)
  local wait = 0
  for _, own in ipairs(waits) do
    wait = max(wait, own)
  end
  for _ = 0, 2 * #entries do
    if wait == NEVER then
      return NEVER
    end
    local later = wait
    for place, entry in ipairs(entries) do
      later = max(later, wait_from(entry.rules, entry.cells, t, costs[place], wait))
    end
    if later == wait then
      return wait
    end
    wait = later
  end
  return NEVER
end

local MAX_PARTS = 32

local function tollgate_all(keys, args)
  local t, margin = clock(args)
  if #keys < 1 or #keys > MAX_PARTS then
    fail('keys', string.format('1 to %d', MAX_PARTS), string.format('%d', #keys))
  elseif #args ~= 2 * #keys then
    fail('arguments', string.format('%d (a policy and a cost for each key)', 2 * #keys), string.format('%d', #args))
  end
  local entries, costs, seen, assessed, all = {}, {}, {}, {}, true
  for place, key in ipairs(keys) do
    if seen[key] then
      fail('keys', 'a key once, add up its costs', quote(key) .. ' twice')
    end
    seen[key] = true
    native_key({ key })
    local rules = compile(args[2 * place - 1])
    costs[place] = whole('cost', args[2 * place], 0, EXACT - 1)
    entries[place] = open(key, rules, t, margin, true)
  end
  for place, entry in ipairs(entries) do
    local granted, allowed, limited_by = assess(entry.rules, entry.cells, t, costs[place], 'binary')
    assessed[place] = { granted, allowed, limited_by }
    all = all and allowed
  end
  local reply, waits, lives = { all and 1 or 0, 0 }, {}, {}
  for place, entry in ipairs(entries) do
    local granted, allowed, limited_by = unpack(assessed[place])
    local charge = all and granted or 0
    local charged, remaining, wait, reset_after =
      settle(entry.rules, entry.cells, t, charge, costs[place], 'binary')
    waits[place], lives[place] = wait, reset_after
    local part = flat(allowed, charge, remaining, wait, reset_after, limited_by)
    part[7], part[8], part[9] = charged, flat_wait(wait), t
    for _, number in ipairs(part) do
      reply[#reply + 1] = number
    end
  end
  reply[2] = all and 0 or flat_wait(wait_for_all(entries, costs, waits, t))
  -- Several keys are written, so each must be writable before the first is.
  for _, key in ipairs(keys) do
    need('SET', key, '', 'PX', 1)
  end
  for place, entry in ipairs(entries) do
    if changed(entry) then
      write(entry, t, lives[place], margin)
    else
      mend(entry.key, entry.found, whole_life(entry, t, lives[place]), margin)
    end
  end
  return reply
end
