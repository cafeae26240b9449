-- bucket: the twin of bucket.rs. A state is a window { start, used }; a look is its end or nil, what
-- was used, and the tokens there were so far.
local bucket
do
local function bucket_fresh()
  return { 0, 0 }
end

local function bucket_build(rule, burst)
  if not is_whole(burst, 1, rule.count) then
    return 'a burst from 1 up to the count'
  end
  rule.burst = burst
end

local function bucket_correct(rule, state, t)
  if state[2] > 0 and state[1] > t + rule.period then
    state[1] = t
    return true
  end
  return false
end

local function bucket_look(rule, state, t)
  local ends = state[1] + rule.period
  if state[2] > 0 and t < ends then
    local arrived = muldiv(rule.count - rule.burst, max(t - state[1], 0), rule.period)
    return ends, state[2], rule.burst + arrived
  end
  return nil, 0, rule.burst
end

local function bucket_room(rule, state, ends, used, tokens)
  return tokens - used
end

local function bucket_fits(rule, state, units, ends, used, tokens)
  return tokens - used >= units
end

local function bucket_remaining(rule, state, ends, used)
  return rule.count - used
end

local function bucket_wait(rule, state, t, units, ends, used, tokens)
  if used + units <= tokens then
    return 0
  end
  if not ends then
    return NEVER
  end
  if rule.count > rule.burst then
    local whole, rest = muldiv(used + units - rule.burst, rule.period, rule.count - rule.burst)
    local enough = state[1] + whole + (rest > 0 and 1 or 0)
    if enough < ends then
      return max(enough - t, 0)
    end
  end
  return units <= rule.burst and max(ends - t, 0) or NEVER
end

local function bucket_reset_after(rule, state, t, ends)
  return ends and max(ends - t, 0) or 0
end

local function bucket_charge(rule, state, t, units, ends, used, tokens)
  if not ends then
    state[1] = t
  end
  state[2] = min(used + units, EXACT)
  return state[2] - used, ends or t + rule.period, state[2], tokens
end

local function bucket_refund(rule, state, t, units, at)
  if not bucket_look(rule, state, t) or at < state[1] then
    return 0
  end
  local given = min(units, state[2])
  state[2] = state[2] - given
  return given
end

bucket = {
  takes = 'burst', loses_room = true, fresh = bucket_fresh, build = bucket_build, correct = bucket_correct,
  look = bucket_look, room = bucket_room, fits = bucket_fits, remaining = bucket_remaining,
  wait = bucket_wait, reset_after = bucket_reset_after, charge = bucket_charge, refund = bucket_refund,
}
end
