-- slot_window KEY count namespace limits now [want_wait]: the twin of slot_window.rs.
local slot_window_kind = {
  name = 'slot_window', letter = 's', exact = true,
  fields = {
    { 'max', 'maxOcurrences', 'maxOccurrences' }, { 'duration', 'limitDuration' },
    { 'resolution', 'durationResolution' },
  },
}

function slot_window_kind.rule(numbers, places, name)
  local count = floor(numbers[1])
  if count < 0 or count > EXACT then
    fail(name .. 'max', 'a number from 0 to 9007199254740992', quote(string.format('%.17g', numbers[1])))
  end
  local period = slotted_span(name .. 'duration', numbers[2], places)
  local resolution = slotted_span(name .. 'resolution', numbers[3], places)
  local shown, given = string.format('%.17g', numbers[2]), quote(string.format('%.17g', numbers[3]))
  if resolution > period then
    fail(name .. 'resolution', 'at most the duration, ' .. shown, given)
  elseif floor(period / resolution) > 10000000 then
    fail(name .. 'resolution', 'at most 10000000 slots in the duration, ' .. shown, given)
  end
  return { algorithm = slots, count = count, period = period, resolution = resolution }
end

local function slot_window(keys, args)
  return slotted_run(slot_window_kind, keys, args)
end
