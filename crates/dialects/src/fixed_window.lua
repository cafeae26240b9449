-- fixed_window KEY limit window_s: the twin of fixed_window.rs.
local function fixed_window(keys, args)
  local t, _, least = clock(args)
  local key = one_key(keys)
  if #args ~= 2 then
    fail('arguments', '2 (limit, window)', digits(#args))
  end
  local count = integer('limit', args[1], 0, EXACT)
  local seconds = integer('window', args[2], 1, MOST_SECONDS)
  local rule = { algorithm = fixed, count = count, period = seconds * 1000000, spacing = 0, tag = pack(seconds) }
  local entry, allowed, remaining, _, reset_after = ask(key, rule, t, t, 1, 'uniform')
  keep_for(entry, t, reset_after, least)
  local headers = { digits(count), digits(seconds_up(reset_after)), digits(max(remaining, 0)) }
  return { allowed and 'allow' or 'block', headers }
end
