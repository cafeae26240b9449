-- arguments: the twin of arguments.rs and number.rs. Numbers are decimals exactly as written.
local MAX_SECONDS = 9007199254

-- floor(number * 10^shift), with a shift of 0, 3 or 6, of a decimal as written, whether that is exact, and whether it is below
-- zero; nil if the text is no number.
local POWERS = { [0] = 1, [3] = 1000, [6] = 1000000 }

local function decimal(text, shift)
  if #text < 16 and text ~= '' and not string.find(text, '%D') then
    local number = tonumber(text) * POWERS[shift]
    if number < EXACT then
      return number, true, false
    end
  end
  local minus, digits, exponent = string.match(text, '^(%-?)([%d.]+)[eE]?([%+%-]?%d*)$')
  local before, point, after = string.match(digits or '', '^(%d*)(%.?)(%d*)$')
  local has_exponent = digits and string.find(text, '[eE]')
  if not before or before .. after == '' or has_exponent and not string.find(exponent, '%d') then
    return nil
  end
  if exponent ~= '' and not has_exponent or #before + #after > 38 or math.abs(tonumber(exponent) or 0) > 32767 then
    return nil
  end
  local all = before .. after
  local places = #before + (tonumber(exponent) or 0) + shift
  local zero = not string.find(all, '[1-9]')
  if zero then
    return 0, true, false
  elseif places <= 0 then
    return 0, false, minus == '-'
  elseif places > 400 then
    return math.huge, true, minus == '-'
  end
  local front = string.match(sub(all, 1, places) .. string.rep('0', places - #all), '^0*(.*)$')
  -- From 2^53 on a double may stand for its neighbour.
  local large = #front > 16 or #front == 16 and front > '9007199254740992'
  return large and math.huge or tonumber(front) or 0, not string.find(sub(all, places + 1), '[1-9]'), minus == '-'
end

-- An integer from `least` to `most`.
local function integer(name, text, least, most)
  local number, exact, negative = decimal(text, 0)
  if not number or not exact or negative or number < least or number > most then
    fail(name, string.format('an integer from %.0f to %.0f', least, most), quote(text))
  end
  return number
end

local function seconds_up(micros)
  return ceil(micros / 1000000)
end

-- Small numbers as text, which most are.
local shown = {}

local function digits(number)
  local text = shown[number]
  if not text then
    text = string.format('%.0f', number)
    if number >= 0 and number < 4096 then
      shown[number] = text
    end
  end
  return text
end

-- What was read from arguments before, by their text; a script knows none.
local read_before, read_count = {}, 0
local MAX_REMEMBERED = 1024

local function remember(text, read)
  if #text > MAX_REMEMBERED then
    return read
  end
  if read_count >= 1000 then
    read_before, read_count = {}, 0
  end
  read_before[text], read_count = read, read_count + 1
  return read
end

-- A total that would pass 2^53 is refused as a whole: a wrong count would be worse.
local function refuse_inexact(rule, state, t, count)
  local _, used = rule.algorithm.look(rule, state, t)
  if used + count > EXACT then
    fail('count', string.format('at most %.0f more than the %.0f counted, 2^53 in all', EXACT - used, used),
      quote(digits(count)))
  end
end

-- Decides a request by the rules at one key: whether it is allowed, what remains, the wait for `needs`
-- units, the time until all is as new, the first limit that refuses, and what it takes to keep it: the
-- state of a rule alone, or an entry, and whether there was a key.
local function ask(key, rules, home, least, t, cost, mode, needs, exact)
  if #rules == 1 then
    local rule = rules[1]
    local state, found = open_one(key, rule)
    if state then
      if exact then
        refuse_inexact(rule, state, t, cost)
      end
      local fits, _, _, remaining, wait, reset_after, dirty = step(rule, state, t, cost, mode, false, needs)
      return fits, remaining, wait, reset_after, fits and 0 or 1, state, found, dirty
    end
  end
  local entry = open(key, rules, home, least)
  local cells = entry.cells
  local granted, allowed, limited_by = assess(rules, cells, t, cost, mode)
  if exact then
    for place = 1, #rules do
      refuse_inexact(rules[place], cells[place].state, t, cost)
    end
  end
  local _, remaining, wait, reset_after = settle(rules, cells, t, charges(cost, mode, granted), needs, mode)
  return allowed, remaining, wait, reset_after, limited_by, entry, entry.found, changed(entry)
end

-- Keeps what was decided for `life`, by the home's clock.
local function keep_for(key, rules, kept, found, dirty, home, life, least)
  if not dirty then
    mend(key, found, kept.cells and whole_life(kept, home, life) or life, least)
  elseif kept.cells then
    write(kept, home, max(life, 1), least)
  else
    write_one(key, rules, kept, found, home, max(life, 1), least)
  end
end
