-- units: the twin of units.rs. Numbers are doubles, so every quantity stays at or below EXACT;
-- a wait that never ends is NEVER, and a product that may pass EXACT goes through muldiv.
local EXACT = 9007199254740992
local NEVER = 1 / 0
-- The longest a debt or a level may take to go: 3660 days.
local MAX_TIME = 316224000000000

local function is_whole(number, least, most)
  return type(number) == 'number' and number >= least and number <= most and number % 1 == 0
end


-- The upper half of a double's bits; the lower half is what it leaves (Veltkamp).
local function upper(a)
  local shifted = 134217729 * a
  return shifted - (shifted - a)
end

-- a * b as a double, and the exact rest (Dekker).
local function product(a, b)
  local high = a * b
  local a1, b1 = upper(a), upper(b)
  local a0, b0 = a - a1, b - b1
  return high, ((a1 * b1 - high) + a1 * b0 + a0 * b1) + a0 * b0
end

-- floor((a * b + d) / c) and the remainder, beyond 2^53.
local function muldiv_long(a, b, d, c)
  local high, low = product(a, b)
  local quotient, more = floor(high / c), floor(d / c)
  if quotient >= EXACT then
    return EXACT, 0
  end
  local back, back_low = product(quotient, c)
  -- The first guess is off by a few at most; whole divisors go first, so that nothing is rounded.
  local rest, small = high - back, (low - back_low) + (d - more * c)
  for _ = 1, 8 do
    if rest + small >= c then
      rest, quotient = rest - c, quotient + 1
    elseif rest + small < 0 then
      rest, quotient = rest + c, quotient - 1
    else
      break
    end
  end
  return quotient + more, rest + small
end

local function muldiv_add(a, b, d, c)
  local sum = a * b + d
  if sum < EXACT then
    local quotient = floor(sum / c)
    return quotient, sum - quotient * c
  end
  return muldiv_long(a, b, d, c)
end

local function muldiv(a, b, c)
  return muldiv_add(a, b, 0, c)
end
