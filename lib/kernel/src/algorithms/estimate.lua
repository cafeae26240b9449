-- estimate: the twin of estimate.rs. A state is { start, previous, current }; a look is the same as
-- of now, and how much of the previous window still overlaps.
local estimate
do
local function estimate_fresh()
  return { 0, 0, 0 }
end

local function estimate_build(rule, option)
  return option ~= 0 and 'no option' or nil
end

local function estimate_correct(rule, state, t)
  if (state[2] > 0 or state[3] > 0) and state[1] > t + rule.period then
    state[1] = t - t % rule.period + rule.period
    return true
  end
  return false
end

local function estimate_look(rule, state, t)
  local period = rule.period
  local was = (state[2] > 0 or state[3] > 0) and state[1] - state[1] % period or 0
  local now = max(t, was)
  local into = now % period
  local start = now - into
  if start == was then
    return start, state[2], state[3], period - into
  elseif start == was + period then
    return start, state[3], 0, period - into
  end
  return start, 0, 0, period - into
end

local function estimate_weighted(rule, previous, overlap)
  local whole, rest = muldiv(previous, overlap, rule.period)
  return rest > 0 and whole + 1 or whole
end

-- How long the overlap may be so that `previous` weighs at most `units`.
local function estimate_overlap_for(rule, previous, units)
  if previous <= units then
    return rule.period
  end
  return (muldiv(units, rule.period, previous))
end

local function estimate_room(rule, state, start, previous, current, overlap)
  return rule.count - current - estimate_weighted(rule, previous, overlap)
end

local function estimate_fits(rule, state, units, start, previous, current, overlap)
  return rule.count - current - estimate_weighted(rule, previous, overlap) >= units
end

local function estimate_wait(rule, state, t, units, start, previous, current, overlap)
  if units > rule.count then
    return NEVER
  end
  local period = rule.period
  if current + units <= rule.count then
    local fits_at = estimate_overlap_for(rule, previous, rule.count - current - units)
    if overlap <= fits_at then
      return 0
    end
    return max(start + period - fits_at - t, 0)
  end
  local fits_at = estimate_overlap_for(rule, current, rule.count - units)
  return max(start + period + period - fits_at - t, 0)
end

local function estimate_reset_after(rule, state, t, start, previous, current)
  if current > 0 then
    return max(start + 2 * rule.period - t, 0)
  elseif previous > 0 then
    return max(start + rule.period - t, 0)
  end
  return 0
end

local function estimate_charge(rule, state, t, units, start, previous, current, overlap)
  state[1], state[2], state[3] = start, previous, min(current + units, EXACT)
  return state[3] - current, start, previous, state[3], overlap
end

local function estimate_refund(rule, state, t, units, at)
  local start, previous, current = estimate_look(rule, state, t)
  local given
  if at >= start then
    given = min(units, current)
    current = current - given
  elseif at + rule.period >= start then
    given = min(units, previous)
    previous = previous - given
  else
    return 0
  end
  if given > 0 then
    state[1], state[2], state[3] = start, previous, current
  end
  return given
end

estimate = {
  takes = 'none', fresh = estimate_fresh, build = estimate_build, correct = estimate_correct,
  look = estimate_look, room = estimate_room, fits = estimate_fits, remaining = estimate_room,
  wait = estimate_wait, reset_after = estimate_reset_after, charge = estimate_charge,
  refund = estimate_refund,
}
end
