-- log: the twin of log.rs. A log is its header (total, newest, skew) and its ring. Units are counted
-- modulo what its entries hold, so that a long life does not make them inexact: an entry that is there
-- holds at least one unit, so a difference of 0 is the modulus.
local function log_now(log, t)
  local now = t + log.skew
  return now > log.newest and now or log.newest
end

local function log_until(log, moment, t)
  return max(moment - (t + log.skew), 0)
end

local function log_correct(log, t, window, grid)
  if log.len > 0 and log.newest > t + log.skew + window then
    local ahead = log.newest - t
    log.skew = ahead - ahead % grid
    return true
  end
  return false
end

local function log_left(log, index, before)
  if index >= log.len then
    return 0
  end
  if not before then
    local _
    _, before = ring_get(log, index)
  end
  local left = (log.total - before) % log.kind[4]
  return left == 0 and log.kind[4] or left
end

-- The first index in start..finish-1 for which `passed` is false, `finish` if there is none.
local function gallop(start, finish, passed)
  local low, step, high = start, 1, nil
  while not high do
    if low >= finish then
      return finish
    end
    local probe = min(low + step - 1, finish - 1)
    if not passed(probe) then
      high = probe
    else
      low, step = probe + 1, step * 2
    end
  end
  while low < high do
    local middle = low + floor((high - low) / 2)
    if passed(middle) then
      low = middle + 1
    else
      high = middle
    end
  end
  return high
end

-- The first entry in the window and the units in it. `leaves` tells when an entry's time leaves.
local function log_look(rule, log, t, leaves)
  if log.len == 0 then
    return 0, 0
  end
  local now = log_now(log, t)
  local at, before = ring_get(log, 0)
  if leaves(rule, log, at) > now then
    return 0, log_left(log, 0, before)
  end
  if log.len > 1 then
    -- In steady traffic one has left.
    at, before = ring_get(log, 1)
    if leaves(rule, log, at) > now then
      return 1, log_left(log, 1, before)
    end
  end
  local live = gallop(2, log.len, function(index)
    return leaves(rule, log, (ring_get(log, index))) <= now
  end)
  return min(live, log.len), log_left(log, live)
end

local function log_first_with_at_most(log, start, units)
  if log_left(log, start) <= units then
    return start
  end
  if log_left(log, start + 1) <= units then
    return start + 1
  end
  return gallop(start + 2, log.len, function(index)
    return log_left(log, index) > units
  end)
end

local function log_wait(rule, log, t, units, leaves, live, used)
  if units > rule.count then
    return NEVER
  end
  if used + units <= rule.count then
    return 0
  end
  local first = log_first_with_at_most(log, live, rule.count - units)
  return log_until(log, leaves(rule, log, (ring_get(log, first - 1))), t)
end

local function log_drop_before(log, live)
  if live > 0 then
    ring_drop_front(log, live)
  end
  if log.len == 0 then
    log.total, log.newest, log.skew, log.anchor = 0, 0, 0, 0
  end
end

local function log_append(log, now, at, units)
  log.newest = now
  if log.len == 0 or log.last < at then
    ring_push(log, at, log.total)
  end
  log.total = (log.total + units) % log.kind[4]
end

local function log_forget_oldest(log, live, units)
  local kept = log_left(log, live) - units
  if kept <= 0 then
    log_drop_before(log, log.len)
    return
  end
  local after = log_first_with_at_most(log, live, kept)
  local split = log_left(log, after) == kept and after or after - 1
  local at = ring_get(log, split)
  ring_drop_front(log, split)
  ring_set(log, 0, at, (log.total - kept) % log.kind[4])
end

local function log_forget_at(log, at, units)
  local index = gallop(0, log.len, function(place)
    return (ring_get(log, place)) < at
  end)
  if index >= log.len or ring_get(log, index) ~= at then
    return 0
  end
  local given = min(units, log_left(log, index) - log_left(log, index + 1))
  ring_shift(log, index + 1, given)
  log.total = (log.total - given) % log.kind[4]
  -- An entry that holds nothing: what was before it is all there is.
  while log.len > 0 and select(2, ring_get(log, log.len - 1)) == log.total do
    ring_drop_back(log)
  end
  log_drop_before(log, 0)
  return given
end
