-- units: the twin of units.rs. Numbers are doubles, so every quantity stays at or below EXACT;
-- a wait that never ends is NEVER, and a product that may pass EXACT goes through muldiv.
local EXACT = 9007199254740992
local NEVER = 1 / 0

-- a * b as a double and the exact rest (Dekker), for factors below 2^53.
local function product(a, b)
  local high = a * b
  local a1 = floor(a / 134217728)
  local a0 = a - a1 * 134217728
  local b1 = floor(b / 134217728)
  local b0 = b - b1 * 134217728
  local middle = a1 * b0
  local rest = ((a1 * b1 * 18014398509481984 - high) + middle * 134217728)
  return high, (rest + a0 * b1 * 134217728) + a0 * b0
end

-- floor((a * b + d) / c) and the remainder, beyond 2^53.
local function muldiv_long(a, b, d, c)
  local high, low = product(a, b)
  local quotient = floor(high / c)
  if quotient >= EXACT then
    return EXACT, 0
  end
  local back, back_low = product(quotient, c)
  local rest = (high - back) + (low - back_low) + d
  local more = floor(rest / c)
  quotient, rest = quotient + more, rest - more * c
  if rest < 0 then
    return quotient - 1, rest + c
  elseif rest >= c then
    return quotient + 1, rest - c
  end
  return quotient, rest
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
