-- slots: the twin of slots.rs. A state is a log with an entry a slot; a look is its first slot in the
-- window, and the units in it.
local slots = { takes = 'resolution', log = WIDE }

function slots.build(rule, resolution)
  rule.resolution = resolution
end

local function slots_leaves(rule, log, slot)
  return slot + rule.period
end

function slots.correct(rule, log, t)
  return log_correct(log, t, rule.period, rule.resolution)
end

function slots.look(rule, log, t)
  return log_look(rule, log, t, slots_leaves)
end

function slots.room(rule, log, live, used)
  return rule.count - used
end

slots.remaining = slots.room

function slots.fits(rule, log, units, live, used)
  return rule.count - used >= units
end

function slots.wait(rule, log, t, units, live, used)
  return log_wait(rule, log, t, units, slots_leaves, live, used)
end

function slots.reset_after(rule, log, t, live, used)
  return used > 0 and log_until(log, log.last + rule.period, t) or 0
end

function slots.charge(rule, log, t, units, live, used)
  local recorded = min(used + units, EXACT) - used
  if recorded > 0 then
    log_drop_before(log, used == 0 and log.len or live)
    local now = log_now(log, t)
    log_append(log, now, now - now % rule.resolution, recorded)
  end
  return recorded
end

function slots.refund(rule, log, t, units, at)
  local slot = at + log.skew
  slot = slot - slot % rule.resolution
  if slot + rule.period <= log_now(log, t) then
    return 0
  end
  return log_forget_at(log, slot, units)
end
