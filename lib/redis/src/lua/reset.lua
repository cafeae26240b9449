-- reset: the call `tollgate_reset KEY policy`.
local function tollgate_reset(keys, args)
  local t, margin = clock(args)
  local key = native_key(keys)
  if #args ~= 1 then
    fail('arguments', '1 (policy)', string.format('%d', #args))
  end
  local entry = open(key, compile(args[1]), t, margin, false, true)
  for place, rule in ipairs(entry.rules) do
    local cell = entry.cells[place]
    if rule.algorithm.log then
      log_drop_before(cell.state, cell.state.len)
    else
      cell.state = rule.algorithm.fresh()
    end
    cell.last = nil
  end
  write(entry, t, 0, margin)
  return 1
end
