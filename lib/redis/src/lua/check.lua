-- check: the calls `tollgate` and `tollgate_peek`, `KEY policy [COST n] [MODE m] [FULL | REST]`.
local MODES = { binary = true, nary = true, uniform = true }

-- The options behind a policy: cost, mode, and how much to tell.
local function read_options(args)
  local cost, mode, tell, index = 1, 'binary', nil, 2
  while index <= #args do
    local word = string.upper(args[index])
    if word == 'COST' and args[index + 1] then
      cost, index = whole('cost', args[index + 1], 0, EXACT - 1), index + 1
    elseif word == 'MODE' and args[index + 1] then
      mode, index = string.lower(args[index + 1]), index + 1
      if not MODES[mode] then
        fail('mode', 'binary, nary or uniform', quote(args[index]))
      end
    elseif word == 'FULL' or word == 'REST' then
      tell = word
    else
      fail('argument ' .. string.format('%d', index), 'COST n, MODE m, FULL or REST', quote(args[index]))
    end
    index = index + 1
  end
  return cost, mode, tell
end

-- What REST and FULL add to the flat reply.
local function tell_rest(reply, charged, wait, t, details)
  reply[7], reply[8], reply[9] = charged, flat_wait(wait), t
  for place, detail in ipairs(details or {}) do
    local base = 5 * place + 4
    reply[base + 1], reply[base + 2], reply[base + 3] = detail[1] and 1 or 0, detail[2], flat_wait(detail[3])
    reply[base + 4], reply[base + 5] = detail[4], detail[5]
  end
end

-- The decision of a policy of one limit, if its state is plainly there.
local function decide_one(key, rules, t, margin, cost, mode, tell, peek)
  local rule = rules[1]
  local state, found = open_one(key, rule)
  if not state then
    return nil
  end
  local fits, granted, charged, remaining, wait, reset_after, dirty =
    step(rule, state, t, cost, mode, peek, needed(cost, mode))
  if not peek then
    if dirty then
      write_one(key, rules, state, found, t, reset_after, margin)
    else
      mend(key, found, reset_after, margin)
    end
  end
  local allowed, limited_by = fits or granted > 0, fits and 0 or 1
  local reply = flat(allowed, granted, remaining, wait, reset_after, limited_by)
  if tell then
    local details = tell == 'FULL' and { { fits, remaining, wait, reset_after, rule.count } }
    tell_rest(reply, charged, wait, t, details)
  end
  return reply
end

local function decide(keys, args, peek)
  local t, margin = clock(args)
  local key = native_key(keys)
  if not args[1] then
    fail('arguments', 'a policy such as "100/min", then COST n, MODE m, FULL', 'none')
  end
  local rules = compiled[args[1]] or compile(args[1])
  local cost, mode, tell = 1, 'binary', nil
  if args[2] then
    cost, mode, tell = read_options(args)
  end
  if #rules == 1 and rules[1].spacing == 0 then
    local reply = decide_one(key, rules, t, margin, cost, mode, tell, peek)
    if reply then
      return reply
    end
  end
  local details = tell == 'FULL' and {} or nil
  local entry = open(key, rules, t, margin)
  local cells = entry.cells
  local granted, allowed, limited_by = assess(rules, cells, t, cost, mode)
  local charge = peek and 0 or charges(cost, mode, granted)
  local charged, remaining, wait, reset_after = settle(rules, cells, t, charge, needed(cost, mode), mode, details)
  if not peek then
    if charge > 0 or changed(entry) then
      write(entry, t, reset_after, margin)
    else
      mend(key, entry.found, whole_life(entry, t, reset_after), margin)
    end
  end
  local reply = flat(allowed, granted, remaining, wait, reset_after, limited_by)
  if tell then
    tell_rest(reply, charged, wait, t, details)
  end
  return reply
end

local function tollgate(keys, args)
  return decide(keys, args, false)
end

local function tollgate_peek(keys, args)
  return decide(keys, args, true)
end
