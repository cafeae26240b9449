-- decay: the twin of decay.rs, the same sequence of double operations. A state is { start, level };
-- a look is the level. Where rs gallops, lua guesses by the logarithm and then asks the same
-- question, since powers are dear here.
local decay
do
local HIGHEST, NOTHING = 2 * EXACT, 1 / EXACT

local function decay_fresh()
  return { 0, 0 }
end

-- Factors below this gallop: near 1 a guess is far off.
local SLOW = 1.0001

local function decay_build(rule, factor)
  if type(factor) ~= 'number' or not (factor > 1 and factor <= 1000000000) then
    return 'a factor above 1 and at most 1e9'
  end
  rule.factor = factor
  rule.logarithm = math.log(factor)
  -- A level of 2^53 fades away in as many slots as 2^-53 is away, 36.8 being the logarithm of 2^53.
  if (math.log(max(rule.count, 1)) + 36.8) / rule.logarithm * rule.period > MAX_TIME then
    return 'a factor by which a full level fades away within 3660 days'
  end
end

local function decay_power(base, exponent)
  local result, square, rest = 1, base, exponent
  while rest > 0 do
    if rest % 2 == 1 then
      result = result * square
      rest = rest - 1
    end
    square = square * square
    rest = rest / 2
  end
  return result
end

local function decay_level_after(rule, state, slots)
  local level = slots == 0 and state[2] or state[2] / decay_power(rule.factor, slots)
  return level < NOTHING and 0 or level
end

local function decay_slots_since(rule, state, t)
  return floor(max(t, state[1]) / rule.period) - floor(state[1] / rule.period)
end

-- Whether the level is low enough: nothing at all if `units` is nil, else with room for them.
local function decay_good(rule, level, units)
  if units then
    return level + units <= rule.count
  end
  return level == 0
end

local function decay_first_slot(rule, state, since, units)
  if rule.factor >= SLOW then
    local below = units and max(rule.count - units, NOTHING) or NOTHING
    local guess = ceil(math.log(state[2] / below) / rule.logarithm)
    guess = max(guess, since + 1)
    for _ = 1, 4 do
      if not decay_good(rule, decay_level_after(rule, state, guess), units) then
        guess = guess + 1
      elseif guess > since + 1 and decay_good(rule, decay_level_after(rule, state, guess - 1), units) then
        guess = guess - 1
      else
        return guess
      end
    end
  end
  local low, step, high = since, 1, nil
  while not high do
    local probe = since + step
    if decay_good(rule, decay_level_after(rule, state, probe), units) then
      high = probe
    elseif probe >= EXACT then
      return nil
    else
      low, step = probe, step * 2
    end
  end
  while high - low > 1 do
    local middle = low + floor((high - low) / 2)
    if decay_good(rule, decay_level_after(rule, state, middle), units) then
      high = middle
    else
      low = middle
    end
  end
  return high
end

local function decay_until(rule, state, t, units)
  local slots = decay_first_slot(rule, state, decay_slots_since(rule, state, t), units)
  if not slots then
    return EXACT
  end
  return max((floor(state[1] / rule.period) + slots) * rule.period - t, 0)
end

local function decay_correct(rule, state, t)
  if state[2] > 0 and state[1] > t then
    local fades = decay_until(rule, { 0, max(rule.count, 1) }, 0)
    if state[1] > t + fades then
      state[1] = (floor(t / rule.period) + 1) * rule.period
      return true
    end
  end
  return false
end

local function decay_look(rule, state, t)
  return decay_level_after(rule, state, decay_slots_since(rule, state, t))
end

local function decay_room(rule, state, level)
  local room = floor(rule.count - level)
  if room >= 0 and level + room > rule.count then
    return room - 1
  elseif room >= -1 and level + (room + 1) <= rule.count then
    return room + 1
  end
  return room
end

local function decay_fits(rule, state, units, level)
  return level + units <= rule.count
end

local function decay_wait(rule, state, t, units, level)
  if units > rule.count then
    return NEVER
  end
  return level + units <= rule.count and 0 or decay_until(rule, state, t, units)
end

local function decay_reset_after(rule, state, t, level)
  return level == 0 and 0 or decay_until(rule, state, t)
end

local function decay_charge(rule, state, t, units, level)
  local now = level > 0 and max(t, state[1]) or t
  state[1], state[2] = floor(now / rule.period) * rule.period, min(level + units, HIGHEST)
  return units, state[2]
end

local function decay_refund(rule, state, t, units, at)
  if decay_slots_since(rule, state, t) > 0 or floor(at / rule.period) ~= floor(state[1] / rule.period) then
    return 0
  end
  local given = min(units, floor(state[2]))
  state[2] = state[2] - given
  return given
end

decay = {
  takes = 'factor', fresh = decay_fresh, build = decay_build, correct = decay_correct, look = decay_look,
  room = decay_room, fits = decay_fits, remaining = decay_room, wait = decay_wait,
  reset_after = decay_reset_after, charge = decay_charge, refund = decay_refund,
}
end
