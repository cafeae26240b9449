-- arguments: the twin of arguments.rs and number.rs. Numbers are decimals exactly as written.
local MOST_SECONDS = 9007199254

-- floor(number * 10^shift) of a decimal as written, whether that is exact, and whether it is below
-- zero; nil if the text is no number.
local function decimal(text, shift)
  if #text < 16 - shift and not string.find(text, '%D') and text ~= '' then
    return tonumber(text) * 10 ^ shift, true, false
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

local function digits(number)
  return string.format('%.0f', number)
end

-- Opens one key for one rule and decides a request; answers the entry and the decision.
local function ask(key, rule, home, t, cost, mode, peek)
  local rules = { rule }
  local entry = open(key, rules, home)
  local granted, allowed, limited_by = assess(rules, entry.cells, t, cost, mode)
  local charge = peek and 0 or charges(cost, mode, granted)
  local charged, remaining, wait, reset_after = settle(rules, entry.cells, t, charge, cost, mode)
  return entry, allowed, remaining, wait, reset_after, charged, limited_by
end

local function keep_for(entry, home, life, least)
  if changed(entry) then
    write(entry, home, max(life, 1), least)
  else
    mend(entry, life, least)
  end
end

-- A total that would pass 2^53 is refused as a whole: a wrong count would be worse.
local function refuse_inexact(rules, cells, t, count)
  local most = 0
  for place, rule in ipairs(rules) do
    local _, used = rule.algorithm.look(rule, cells[place].state, t)
    most = max(most, used)
  end
  if most + count > EXACT then
    fail('count', string.format('at most %.0f more than the %.0f counted, 2^53 in all', EXACT - most, most),
      quote(digits(count)))
  end
end
