-- refund: the call `tollgate_refund KEY policy n at_us`.
local function tollgate_refund(keys, args)
  local t, margin = clock(args)
  local key = native_key(keys)
  if #args ~= 3 then
    fail('arguments', '3 (policy, n, at_us)', string.format('%d', #args))
  end
  local rules = compile(args[1])
  local units, at = whole('n', args[2], 0, EXACT - 1), whole('at_us', args[3], 0, EXACT - 1)
  if units == 0 then
    return 0
  end
  local entry = open(key, rules, t, margin)
  if not entry.found then
    return 0
  end
  local given = refund(rules, entry.cells, t, units, at)
  local life = expires_after(rules, entry.cells, t)
  if changed(entry) then
    write(entry, t, life, margin)
  else
    mend(key, true, whole_life(entry, t, life), margin)
  end
  return given
end
