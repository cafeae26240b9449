-- fixed: the twin of fixed.rs. A state is a window { start, used }; a look is the end of the open
-- window, or nil.
local fixed
do
local WEEK, MONDAY = 604800000000, 345600000000

local function fixed_fresh()
  return { 0, 0 }
end

local function fixed_build(rule, align)
  if align ~= 0 and align ~= 1 then
    return 'clock or first'
  end
  rule.clock = align == 1
end

local function fixed_phase(rule, t)
  local before = rule.period % WEEK == 0 and rule.period - MONDAY % rule.period or 0
  return (t + before) % rule.period
end

local function fixed_window_at(rule, t)
  return rule.clock and max(t - fixed_phase(rule, t), 0) or t
end

local function fixed_correct(rule, state, t)
  if state[2] > 0 and state[1] > t + rule.period then
    state[1] = rule.clock and t + rule.period - fixed_phase(rule, t) or t
    return true
  end
  return false
end

local function fixed_look(rule, state, t)
  local ends = state[1] + rule.period - (rule.clock and fixed_phase(rule, state[1]) or 0)
  return state[2] > 0 and t < ends and ends or nil
end

local function fixed_room(rule, state, ends)
  return rule.count - (ends and state[2] or 0)
end

local function fixed_fits(rule, state, units, ends)
  return rule.count - (ends and state[2] or 0) >= units
end

local function fixed_wait(rule, state, t, units, ends)
  if units > rule.count then
    return NEVER
  end
  return ends and state[2] + units > rule.count and max(ends - t, 0) or 0
end

local function fixed_reset_after(rule, state, t, ends)
  return ends and max(ends - t, 0) or 0
end

local function fixed_charge(rule, state, t, units, ends)
  if not ends then
    state[1], state[2] = fixed_window_at(rule, t), 0
  end
  local used = state[2]
  state[2] = min(used + units, EXACT)
  return state[2] - used, ends or state[1] + rule.period
end

local function fixed_refund(rule, state, t, units, at)
  if not fixed_look(rule, state, t) or at < fixed_window_at(rule, state[1]) then
    return 0
  end
  local given = min(units, state[2])
  state[2] = state[2] - given
  return given
end

fixed = {
  takes = 'align', fresh = fixed_fresh, build = fixed_build, correct = fixed_correct, look = fixed_look,
  room = fixed_room, fits = fixed_fits, remaining = fixed_room, wait = fixed_wait,
  reset_after = fixed_reset_after, charge = fixed_charge, refund = fixed_refund,
}
end
