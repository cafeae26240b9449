-- token_bucket KEY limit window_s burst: the twin of token_bucket.rs.
local function token_bucket_rules(args)
  if #args ~= 3 then
    fail('arguments', '3 (limit, window, burst)', digits(#args))
  end
  local count = integer('limit', args[1], 1, EXACT)
  local seconds = integer('window', args[2], 1, MAX_SECONDS)
  local burst = integer('burst', args[3], 1, count)
  local limit = string.format('%.0f %.0f;w=%.0f;burst=%.0f;policy=token_bucket', count, count, seconds, burst)
  local rule = {
    algorithm = bucket, count = count, period = seconds * 1000000, burst = burst, spacing = 0, tag = 'b' .. pack(seconds),
  }
  return { rule, limit = limit }
end

local function token_bucket(keys, args)
  local t, _, least = clock(args)
  local key = one_key(keys)
  local text = #args == 3 and 'bucket ' .. args[1] .. '\0' .. args[2] .. '\0' .. args[3] or ''
  local rules = read_before[text] or remember(text, token_bucket_rules(args))
  local allowed, remaining, wait, reset_after, _, kept, found, dirty = ask(key, rules, t, least, t, 1, 'binary', 1)
  keep_for(key, rules, kept, found, dirty, t, reset_after, least)
  local headers = { rules.limit, digits(seconds_up(reset_after)), digits(remaining) }
  if wait > 0 and wait < NEVER then
    headers[4] = digits(seconds_up(wait))
  end
  return { allowed and 'allow' or 'block', headers }
end
