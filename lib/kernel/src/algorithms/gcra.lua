-- gcra: the twin of gcra.rs. A state is { seen, whole, fraction, count, period }: what was owed at
-- the latest charge, over the count and period it was charged under. A period of 0 is the rule's own.
-- A span is two numbers: whole microseconds and a fraction over a count. A look is what is owed.
local gcra
do
local function gcra_fresh()
  return { 0, 0, 0, 0, 0 }
end

-- The sum of two spans over one count.
local function gcra_plus(whole, fraction, more_whole, more_fraction, count)
  fraction = fraction + more_fraction
  if fraction >= count then
    return whole + more_whole + 1, fraction - count
  end
  return whole + more_whole, fraction
end

-- Whether the first span is at most the second.
local function gcra_at_most(whole, fraction, most_whole, most_fraction)
  return whole < most_whole or whole == most_whole and fraction <= most_fraction
end

-- Answers what was expected instead, if the numbers are none of this algorithm's; so do all of these.
local function gcra_build(rule, burst)
  if not is_whole(burst, 1, EXACT) or muldiv(burst, rule.period, rule.count) >= MAX_TIME then
    return 'a burst that refills within 3660 days (burst * period / count)'
  end
  rule.burst = burst
  rule.interval, rule.interval_fraction = muldiv(1, rule.period, rule.count)
  rule.tolerance, rule.tolerance_fraction = muldiv(burst, rule.period, rule.count)
end

local function gcra_same_rate(rule, state)
  return state[4] == rule.count and (state[5] == 0 or state[5] == rule.period)
end

local function gcra_period(rule, state)
  return state[5] == 0 and rule.period or state[5]
end

local function gcra_correct(rule, state, t)
  local refill = rule.tolerance + (rule.tolerance_fraction > 0 and 1 or 0)
  if state[1] > t + refill then
    state[1] = t
    return true
  end
  return false
end

-- All that is owed counts, also where a limit that was made smaller finds more than its burst.
local function gcra_look(_, state, t)
  local whole = state[1] + state[2] - max(t, state[1])
  if whole < 0 then
    return 0, 0
  end
  return whole, state[3]
end

local function gcra_units_owed(rule, state, whole, fraction)
  if whole == 0 and fraction == 0 then
    return 0
  end
  local units, rest = muldiv_add(whole, state[4], fraction, gcra_period(rule, state))
  return rest > 0 and units + 1 or units
end

-- What `units` take to pay back at the state's own rate.
local function gcra_span_of(rule, state, units)
  if gcra_same_rate(rule, state) and units == rule.burst then
    return rule.tolerance, rule.tolerance_fraction
  end
  return muldiv(units, gcra_period(rule, state), state[4])
end

local function gcra_room(rule, state, whole, fraction)
  return rule.burst - gcra_units_owed(rule, state, whole, fraction)
end

local function gcra_fits(rule, state, units, whole, fraction)
  if units > rule.burst then
    return false
  end
  if whole == 0 and fraction == 0 then
    return true
  end
  return gcra_at_most(whole, fraction, gcra_span_of(rule, state, rule.burst - units))
end

local function gcra_wait(rule, state, t, units, whole, fraction)
  if units > rule.burst then
    return NEVER
  end
  if whole == 0 and fraction == 0 then
    return 0
  end
  local may_owe, may_owe_fraction = gcra_span_of(rule, state, rule.burst - units)
  if gcra_at_most(whole, fraction, may_owe, may_owe_fraction) then
    return 0
  end
  return max(state[1] - t, 0) + whole - may_owe + (fraction > may_owe_fraction and 1 or 0)
end

local function gcra_reset_after(rule, state, t, whole, fraction)
  if whole == 0 and fraction == 0 then
    return 0
  end
  return max(state[1] - t, 0) + whole + (fraction > 0 and 1 or 0)
end

local function gcra_owing(rule, state, t, whole, fraction)
  state[1], state[2], state[3], state[4] = t, whole, fraction, rule.count
  state[5] = rule.named and rule.period or 0
end

-- What `units` take to pay back at the rule's rate.
local function gcra_more(rule, units)
  if units == 1 then
    return rule.interval, rule.interval_fraction
  end
  return muldiv(units, rule.period, rule.count)
end

local function gcra_charge(rule, state, t, units, whole, fraction)
  local nothing = whole == 0 and fraction == 0
  if not nothing then
    t = max(t, state[1])
  end
  local same = gcra_same_rate(rule, state)
  local plain = nothing or same and gcra_at_most(whole, fraction, rule.tolerance, rule.tolerance_fraction)
  if plain and units <= rule.burst then
    local more, more_fraction = gcra_more(rule, units)
    whole, fraction = gcra_plus(whole, fraction, more, more_fraction, rule.count)
    gcra_owing(rule, state, t, whole, fraction)
    return units, whole, fraction
  end
  local owed = gcra_units_owed(rule, state, whole, fraction)
  local recorded = min(units, max(2 * rule.burst - owed, 0))
  if recorded == 0 then
    -- Two bursts or more are owed. Converting them to a slower rate could take longer than any debt may.
    return 0, whole, fraction
  end
  if same then
    local more, more_fraction = gcra_more(rule, recorded)
    whole, fraction = gcra_plus(whole, fraction, more, more_fraction, rule.count)
  else
    whole, fraction = gcra_more(rule, owed + recorded)
  end
  gcra_owing(rule, state, t, whole, fraction)
  return recorded, whole, fraction
end

local function gcra_refund(rule, state, t, units, at)
  local whole, fraction = gcra_look(rule, state, t)
  if whole == 0 and fraction == 0 then
    return 0
  end
  t = max(t, state[1])
  local count, period = state[4], gcra_period(rule, state)
  -- No charge was larger than the largest debt, two bursts.
  local most = muldiv(2 * MAX_TIME, count, period) + 1
  local given, given_fraction = muldiv(min(units, most), period, count)
  local since = max(t - at, 0)
  if given < since then
    return 0
  end
  given = given - since
  if not gcra_at_most(given, given_fraction, whole, fraction) then
    given, given_fraction = whole, fraction
  end
  local back = muldiv_add(given, count, given_fraction, period)
  if fraction < given_fraction then
    whole, fraction = whole - given - 1, fraction + count - given_fraction
  else
    whole, fraction = whole - given, fraction - given_fraction
  end
  state[2], state[3] = t + whole - state[1], fraction
  -- Less than a unit may be given back, which is told as none.
  return back, true
end

gcra = {
  takes = 'burst', fresh = gcra_fresh, build = gcra_build, correct = gcra_correct, look = gcra_look,
  room = gcra_room, fits = gcra_fits, remaining = gcra_room, wait = gcra_wait,
  reset_after = gcra_reset_after, charge = gcra_charge, refund = gcra_refund,
}
end
