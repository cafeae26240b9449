-- spacing: the twin of spacing.rs. `last` is the last charge, nil if there was none.
local function spacing_correct(last, t, spacing)
  if last and last > t + spacing then
    return t, true
  end
  return last, false
end

local function spacing_wait(last, t, spacing)
  return last and max(last + spacing - t, 0) or 0
end
