-- sliding: the twin of sliding.rs. A state is a log; a look is its first entry in the window, and the
-- units in it.
local sliding
do
-- Entries a log may need, and units it may count: entries hold 6 bytes of them, and up to twice the count.
local MAX_ENTRIES, MAX_UNITS = 1000000, 70368744177664

local function sliding_build(rule, grain)
  if grain == 1 and rule.count > MAX_ENTRIES then
    return 'at most 1_000_000 for sliding without a grain (add grain=PERIOD, or use gcra)'
  elseif not is_whole(grain, 1, rule.period) or rule.count > MAX_UNITS then
    return 'a grain from 1us up to the period, and a count of at most 2^46'
  elseif min(rule.count, floor(rule.period / grain) + 2) > MAX_ENTRIES then
    return 'a grain of which at most 1_000_000 are in the period'
  end
  rule.grain = grain
end

local function sliding_leaves(rule, log, at)
  return at + rule.period
end

local function sliding_stamp(rule, now)
  return rule.grain == 1 and now or now - now % rule.grain + rule.grain - 1
end

local function sliding_correct(rule, log, t)
  return log_correct(log, t, rule.period, 1)
end

local function sliding_look(rule, log, t)
  return log_look(rule, log, t, sliding_leaves)
end

local function sliding_room(rule, log, live, used)
  return rule.count - used
end

local function sliding_fits(rule, log, units, live, used)
  return rule.count - used >= units
end

local function sliding_wait(rule, log, t, units, live, used)
  return log_wait(rule, log, t, units, sliding_leaves, live, used)
end

local function sliding_reset_after(rule, log, t)
  return log.len > 0 and log_until(log, log.last + rule.period, t) or 0
end

local function sliding_charge(rule, log, t, units, live, used)
  local recorded = min(units, max(2 * rule.count - used, 0))
  if recorded > 0 then
    log_drop_before(log, live)
    local now = log_now(log, t)
    log_append(log, now, sliding_stamp(rule, now), recorded)
    live = 0
  end
  return recorded, live, used + recorded
end

local function sliding_refund(rule, log, t, units, at)
  if at + log.skew + rule.period <= log_now(log, t) then
    return 0
  end
  local live, used = sliding_look(rule, log, t)
  local given = min(units, used)
  if given > 0 then
    log_forget_oldest(log, live, given)
  end
  return given
end

sliding = {
  takes = 'grain', log = NARROW, grid = 1, build = sliding_build, correct = sliding_correct,
  look = sliding_look, room = sliding_room, fits = sliding_fits, remaining = sliding_room,
  wait = sliding_wait, reset_after = sliding_reset_after, charge = sliding_charge, refund = sliding_refund,
}
end
