-- slots: the twin of slots.rs. A state is a log with an entry a slot; a look is its first slot in the
-- window, and the units in it.
local slots
do
local function slots_build(rule, resolution)
  if not is_whole(resolution, 1, rule.period) or floor(rule.period / resolution) > 100000 then
    return 'a resolution from 1us up to the period, and at most 100000 of them in it'
  end
  rule.resolution = resolution
end

local function slots_leaves(rule, log, slot)
  return slot + rule.period
end

local function slots_correct(rule, log, t)
  return log_correct(log, t, rule.period, rule.resolution)
end

local function slots_look(rule, log, t)
  return log_look(rule, log, t, slots_leaves)
end

local function slots_room(rule, log, live, used)
  return rule.count - used
end

local function slots_fits(rule, log, units, live, used)
  return rule.count - used >= units
end

local function slots_wait(rule, log, t, units, live, used)
  return log_wait(rule, log, t, units, slots_leaves, live, used)
end

local function slots_reset_after(rule, log, t, live, used)
  return used > 0 and log_until(log, log.last + rule.period, t) or 0
end

local function slots_charge(rule, log, t, units, live, used)
  local recorded = min(used + units, EXACT) - used
  if recorded > 0 then
    log_drop_before(log, used == 0 and log.len or live)
    local now = log_now(log, t)
    log_append(log, now, now - now % rule.resolution, recorded)
    live = 0
  end
  return recorded, live, used + recorded
end

local function slots_refund(rule, log, t, units, at)
  local slot = at + log.skew
  slot = slot - slot % rule.resolution
  if slot + rule.period <= log_now(log, t) then
    return 0
  end
  return log_forget_at(log, slot, units)
end

slots = {
  takes = 'resolution', log = WIDE, build = slots_build, correct = slots_correct, look = slots_look,
  room = slots_room, fits = slots_fits, remaining = slots_room, wait = slots_wait,
  reset_after = slots_reset_after, charge = slots_charge, refund = slots_refund,
}
end
