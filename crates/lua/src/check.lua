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

local function decide(keys, args, peek)
  local t, margin = clock(args)
  local key = one_key(keys)
  if not args[1] then
    fail('arguments', 'a policy such as "100/min", then COST n, MODE m, FULL', 'none')
  end
  local rules = compile(args[1])
  local cost, mode, tell = 1, 'binary', nil
  if args[2] then
    cost, mode, tell = read_options(args)
  end
  local details = tell == 'FULL' and {} or nil
  local entry = open(key, rules, t)
  local cells = entry.cells
  local granted, allowed, limited_by = assess(rules, cells, t, cost, mode)
  local charge = peek and 0 or charges(cost, mode, granted)
  local charged, remaining, wait, reset_after = settle(rules, cells, t, charge, needed(cost, mode), mode, details)
  if not peek then
    if charge > 0 or changed(entry) then
      write(entry, t, reset_after, margin)
    else
      mend(entry, reset_after, margin)
    end
  end
  local reply = flat(allowed, granted, remaining, wait, reset_after, limited_by)
  if tell then
    reply[7], reply[8], reply[9] = charged, flat_wait(wait), t
    for place, detail in ipairs(details or {}) do
      local base = 5 * place + 4
      reply[base + 1], reply[base + 2], reply[base + 3] = detail[1] and 1 or 0, detail[2], flat_wait(detail[3])
      reply[base + 4], reply[base + 5] = detail[4], detail[5]
    end
  end
  return reply
end

local function tollgate(keys, args)
  return decide(keys, args, false)
end

local function tollgate_peek(keys, args)
  return decide(keys, args, true)
end
