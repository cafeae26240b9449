-- sliding: the twin of sliding.rs. A state is a log; a look is its first entry in the window, and the
-- units in it.
local sliding = { takes = 'grain', log = NARROW, grid = 1 }

function sliding.build(rule, grain)
  rule.grain = grain
end

local function sliding_leaves(rule, log, at)
  return at + rule.period
end

local function sliding_stamp(rule, now)
  return rule.grain == 1 and now or now - now % rule.grain + rule.grain - 1
end

function sliding.correct(rule, log, t)
  return log_correct(log, t, rule.period, 1)
end

function sliding.look(rule, log, t)
  return log_look(rule, log, t, sliding_leaves)
end

function sliding.room(rule, log, live, used)
  return rule.count - used
end

sliding.remaining = sliding.room

function sliding.fits(rule, log, units, live, used)
  return rule.count - used >= units
end

function sliding.wait(rule, log, t, units, live, used)
  return log_wait(rule, log, t, units, sliding_leaves, live, used)
end

function sliding.reset_after(rule, log, t)
  return log.len > 0 and log_until(log, log.last + rule.period, t) or 0
end

function sliding.charge(rule, log, t, units, live, used)
  local recorded = min(units, max(2 * rule.count - used, 0))
  if recorded > 0 then
    log_drop_before(log, live)
    local now = log_now(log, t)
    log_append(log, now, sliding_stamp(rule, now), recorded)
  end
  return recorded
end

function sliding.refund(rule, log, t, units, at)
  if at + log.skew + rule.period <= log_now(log, t) then
    return 0
  end
  local live, used = sliding.look(rule, log, t)
  local given = min(units, used)
  if given > 0 then
    log_forget_oldest(log, live, given)
  end
  return given
end
