-- fixed_window KEY limit window_s: the twin of fixed_window.rs.
local function fixed_window_rules(args)
  if #args ~= 2 then
    fail('arguments', '2 (limit, window)', digits(#args))
  end
  local count = integer('limit', args[1], 0, EXACT)
  local seconds = integer('window', args[2], 1, MAX_SECONDS)
  local rule = { algorithm = fixed, count = count, period = seconds * 1000000, spacing = 0, tag = 'f' .. pack(seconds) }
  return { rule, limit = digits(count) }
end

local function fixed_window(keys, args)
  local t, _, least = clock(args)
  local key = one_key(keys)
  local text = #args == 2 and 'fixed ' .. args[1] .. '\0' .. args[2] or ''
  local rules = read_before[text] or remember(text, fixed_window_rules(args))
  local allowed, remaining, _, reset_after, _, kept, found, dirty = ask(key, rules, t, least, t, 1, 'uniform', 1)
  keep_for(key, rules, kept, found, dirty, t, reset_after, least)
  return { allowed and 'allow' or 'block', { rules.limit, digits(seconds_up(reset_after)), digits(max(remaining, 0)) } }
end
