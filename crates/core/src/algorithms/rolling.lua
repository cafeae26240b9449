-- rolling: the twin of rolling.rs. A state is a log of numbered cells of a grid that begins at
-- `anchor`; a look is its first cell in the interval, and the units in it.
local rolling = { takes = 'buckets', log = WIDE, anchored = true }

function rolling.build(rule, buckets)
  rule.buckets = buckets
  rule.life = rule.period + floor(rule.period / (buckets * 2))
end

local function rolling_cell_time_up(rule, log, cell)
  local whole, rest = muldiv(cell, rule.period, rule.buckets)
  return log.anchor + (rest > 0 and whole + 1 or whole)
end

local function rolling_leaves(rule, log, cell)
  return rolling_cell_time_up(rule, log, cell) + rule.life
end

local function rolling_cell(rule, log, newest, now)
  if newest and now <= log.anchor + muldiv(newest + 1, rule.period, rule.buckets) then
    return newest
  end
  return (muldiv(max(now - log.anchor, 0), rule.buckets, rule.period))
end

function rolling.correct(rule, log, t)
  return log_correct(log, t, rule.life, 1)
end

function rolling.look(rule, log, t)
  return log_look(rule, log, t, rolling_leaves)
end

function rolling.room(rule, log, live, used)
  return rule.count - used
end

rolling.remaining = rolling.room

function rolling.fits(rule, log, units, live, used)
  return rule.count - used >= units
end

function rolling.wait(rule, log, t, units, live, used)
  return log_wait(rule, log, t, units, rolling_leaves, live, used)
end

function rolling.reset_after(rule, log, t)
  return log.len > 0 and log_until(log, rolling_leaves(rule, log, log.last), t) or 0
end

function rolling.charge(rule, log, t, units, live, used)
  local recorded = min(used + units, EXACT) - used
  if recorded > 0 then
    log_drop_before(log, live)
    local now = log_now(log, t)
    if log.len == 0 then
      log.anchor = now
    end
    log_append(log, now, rolling_cell(rule, log, log.last, now), recorded)
  end
  return recorded
end

function rolling.refund(rule, log, t, units, at)
  local live, used = rolling.look(rule, log, t)
  if live < log.len and rolling_cell_time_up(rule, log, (ring_get(log, live))) > at + log.skew then
    return 0
  end
  local given = min(units, used)
  if given > 0 then
    log_forget_oldest(log, live, given)
  end
  return given
end
