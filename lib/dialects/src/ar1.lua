-- ar1 KEY count namespace limits now [want_wait]: the twin of ar1.rs.
local ar1_kind = {
  name = 'ar1', letter = 'a',
  fields = {
    { 'max', 'maxOcurrences', 'maxOccurrences' }, { 'decay', 'decayFactor', 'decay' },
    { 'resolution', 'durationResolution', 'limitResolution' },
  },
}

function ar1_kind.rule(numbers, places, name)
  local most, factor = numbers[1], numbers[2]
  if not (most >= 0 and most <= EXACT) then
    fail(name .. 'max', 'a number from 0 to 9007199254740992', quote(string.format('%.17g', most)))
  elseif not (factor > 1 and factor <= 1000000000) then
    fail(name .. 'decay', 'a number above 1 and at most 1e9', quote(string.format('%.17g', factor)))
  end
  local rule = { algorithm = decay, count = most, period = slotted_span(name .. 'resolution', numbers[3], places) }
  if decay.build(rule, factor) then
    fail(name .. 'decay', 'a decay by which a full level fades away within 316224000000000 ticks',
      quote(string.format('%.17g', factor)))
  end
  return rule
end

local function ar1(keys, args)
  return slotted_run(ar1_kind, keys, args)
end
