-- rolling: the twin of rolling.rs. A state is a log of numbered cells of a grid that begins at
-- `anchor`; a look is its first cell in the interval, and the units in it.
local rolling
do
local function rolling_build(rule, buckets)
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

local function rolling_correct(rule, log, t)
  return log_correct(log, t, rule.life, 1)
end

local function rolling_look(rule, log, t)
  return log_look(rule, log, t, rolling_leaves)
end

local function rolling_room(rule, log, live, used)
  return rule.count - used
end

local function rolling_fits(rule, log, units, live, used)
  return rule.count - used >= units
end

local function rolling_wait(rule, log, t, units, live, used)
  return log_wait(rule, log, t, units, rolling_leaves, live, used)
end

local function rolling_reset_after(rule, log, t)
  return log.len > 0 and log_until(log, rolling_leaves(rule, log, log.last), t) or 0
end

local function rolling_charge(rule, log, t, units, live, used)
  local recorded = min(used + units, EXACT) - used
  if recorded > 0 then
    log_drop_before(log, live)
    local now = log_now(log, t)
    if log.len == 0 then
      log.anchor = now
    end
    log_append(log, now, rolling_cell(rule, log, log.last, now), recorded)
    live = 0
  end
  return recorded, live, used + recorded
end

local function rolling_refund(rule, log, t, units, at)
  local live, used = rolling_look(rule, log, t)
  if live < log.len and rolling_cell_time_up(rule, log, (ring_get(log, live))) > at + log.skew then
    return 0
  end
  local given = min(units, used)
  if given > 0 then
    log_forget_oldest(log, live, given)
  end
  return given
end

rolling = {
  takes = 'buckets', log = WIDE, anchored = true, build = rolling_build, correct = rolling_correct,
  look = rolling_look, room = rolling_room, fits = rolling_fits, remaining = rolling_room,
  wait = rolling_wait, reset_after = rolling_reset_after, charge = rolling_charge, refund = rolling_refund,
}
end
