-- combine: the twin of combine.rs. A cell is what the limit remembers, the last charge under a spacing,
-- and what the algorithm's look at the state was. It is made with all its fields, since a table that
-- grows costs more than what is done with it. A charge answers the look after it, besides what it recorded.
local function new_cell(state, last)
  return { state = state, last = last, a = 0, b = 0, c = 0, d = 0, fits = false, dirty = false }
end

local function cell_fits(rule, cell, t, units)
  local algorithm, corrected = rule.algorithm, false
  if rule.spacing > 0 then
    cell.last, corrected = spacing_correct(cell.last, t, rule.spacing)
  end
  if algorithm.correct(rule, cell.state, t) or corrected then
    cell.dirty = true
  end
  local a, b, c, d = algorithm.look(rule, cell.state, t)
  cell.a, cell.b, cell.c, cell.d = a, b, c, d
  if not algorithm.fits(rule, cell.state, units, a, b, c, d) then
    return false
  end
  return units == 0 or rule.spacing == 0 or spacing_wait(cell.last, t, rule.spacing) == 0
end

-- The units that fit a request for at least one.
local function cell_room(rule, cell, t)
  if rule.spacing > 0 and spacing_wait(cell.last, t, rule.spacing) > 0 then
    return 0
  end
  return max(rule.algorithm.room(rule, cell.state, cell.a, cell.b, cell.c, cell.d), 0)
end

local function cell_wait(rule, cell, t, units)
  local spaced = units > 0 and rule.spacing > 0 and spacing_wait(cell.last, t, rule.spacing) or 0
  t = t + spaced
  return rule.algorithm.wait(rule, cell.state, t, units, rule.algorithm.look(rule, cell.state, t)) + spaced
end

-- Charges `units`, if any; answers how many were recorded, what remains, the wait for `needs` units and
-- the time until the limit is as new.
local function cell_settle(rule, cell, t, units, needs)
  local algorithm, state = rule.algorithm, cell.state
  local a, b, c, d, recorded = cell.a, cell.b, cell.c, cell.d, 0
  if units > 0 then
    if rule.spacing > 0 then
      cell.last = max(cell.last or t, t)
    end
    recorded, a, b, c, d = algorithm.charge(rule, state, t, units, a, b, c, d)
    cell.dirty = true
  end
  local reset_after = algorithm.reset_after(rule, state, t, a, b, c, d)
  local wait
  if rule.spacing > 0 then
    wait = cell_wait(rule, cell, t, needs)
    reset_after = max(reset_after, spacing_wait(cell.last, t, rule.spacing))
  else
    wait = algorithm.wait(rule, state, t, needs, a, b, c, d)
  end
  return recorded, algorithm.remaining(rule, state, a, b, c, d), wait, reset_after
end

-- What fits: the units granted, whether that allows the request, and the first limit that does not fit.
local function assess(rules, cells, t, cost, mode)
  local room, limited_by = cost, 0
  for index = 1, #rules do
    local rule, cell = rules[index], cells[index]
    cell.fits = cell_fits(rule, cell, t, cost)
    if not cell.fits then
      limited_by = limited_by == 0 and index or limited_by
      room = mode == 'nary' and min(room, cell_room(rule, cell, t)) or 0
    end
  end
  return room, limited_by == 0 or room > 0, limited_by
end

local function wait_from(rules, cells, t, units, wait)
  for _ = 0, 2 * #rules do
    if wait == NEVER then
      return NEVER
    end
    local more = 0
    for index = 1, #rules do
      more = max(more, cell_wait(rules[index], cells[index], t + wait, units))
    end
    if more == 0 then
      return wait
    end
    wait = wait + more
  end
  return NEVER
end

-- Charges every limit and tells how things then stand: what was charged, what remains, the wait and the
-- time until all is as new. With `details`, each limit's part goes there.
local function settle(rules, cells, t, charge, needs, mode, details)
  local charged, remaining, wait, reset_after, loses_room = 0, NEVER, 0, 0, false
  for index = 1, #rules do
    local rule, cell = rules[index], cells[index]
    local recorded, left, own_wait, own_reset = cell_settle(rule, cell, t, charge, needs)
    left = mode == 'uniform' and left or max(left, 0)
    charged, remaining = max(charged, recorded), min(remaining, left)
    wait, reset_after = max(wait, own_wait), max(reset_after, own_reset)
    loses_room = loses_room or rule.algorithm.loses_room
    if details then
      details[index] = { cell.fits, left, own_wait, own_reset, rule.count }
    end
  end
  if loses_room and (#rules > 1 or rules[1].spacing > 0) then
    wait = wait_from(rules, cells, t, needs, wait)
  end
  return charged, remaining, wait, reset_after
end

-- A decision by one limit alone and without a spacing, the twin of `step`: whether it fits, what is granted
-- and recorded, how the limit then stands, and whether its state changed.
local function step(rule, state, t, cost, mode, peek, needs)
  local algorithm = rule.algorithm
  local dirty = algorithm.correct(rule, state, t)
  local a, b, c, d = algorithm.look(rule, state, t)
  local fits = algorithm.fits(rule, state, cost, a, b, c, d)
  local granted, recorded = cost, 0
  if not fits then
    granted = mode == 'nary' and algorithm.room(rule, state, a, b, c, d) or 0
    granted = granted > 0 and granted or 0
  end
  local charge = peek and 0 or mode == 'uniform' and cost or granted
  if charge > 0 then
    recorded, a, b, c, d = algorithm.charge(rule, state, t, charge, a, b, c, d)
    dirty = true
  end
  local remaining = algorithm.remaining(rule, state, a, b, c, d)
  if remaining < 0 and mode ~= 'uniform' then
    remaining = 0
  end
  local wait = algorithm.wait(rule, state, t, needs, a, b, c, d)
  return fits, granted, recorded, remaining, wait, algorithm.reset_after(rule, state, t, a, b, c, d), dirty
end

-- The units waits are told for, if the caller does not say.
local function needed(cost, mode)
  return mode == 'nary' and min(cost, 1) or cost
end

-- The units to charge of a request that is granted `granted`.
local function charges(cost, mode, granted)
  return mode == 'uniform' and cost or granted
end

local function refund(rules, cells, t, units, at)
  local given = 0
  if units == 0 or at > t then
    return 0
  end
  for index = 1, #rules do
    local rule, cell = rules[index], cells[index]
    cell_fits(rule, cell, t, 0)
    local own, is_other = rule.algorithm.refund(rule, cell.state, t, units, at)
    -- What gives back nothing decides as before.
    cell.dirty = cell.dirty or is_other or own > 0
    given = max(given, own)
  end
  return given
end

local function expires_after(rules, cells, t)
  local reset_after = 0
  for index = 1, #rules do
    local rule, cell = rules[index], cells[index]
    local own = rule.algorithm.reset_after(rule, cell.state, t, rule.algorithm.look(rule, cell.state, t))
    local spaced = rule.spacing > 0 and spacing_wait(cell.last, t, rule.spacing) or 0
    reset_after = max(reset_after, own, spaced)
  end
  return reset_after
end
