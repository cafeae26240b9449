-- parse: the twin of parse.rs, policy text to limits as `compile` takes them. Errors name the column.
local text_units = {
  us = 1, ms = 1000, s = 1000000, sec = 1000000, second = 1000000, m = 60000000, min = 60000000,
  minute = 60000000, h = 3600000000, hour = 3600000000, d = 86400000000, day = 86400000000,
  w = 604800000000, week = 604800000000,
}
local OPTIONS = 'an algorithm (sliding, gcra, fixed, bucket, slots, estimate, decay) or an option (burst=, grain=, '
  .. 'resolution=, factor=, spacing=, align=, name=)'

local function text_fail(column, expected, found, example)
  found = found == '' and 'the end' or quote(found)
  fail(string.format('column %d', column), expected, found .. '; for example "' .. (example or '100/min') .. '"')
end

local function text_count(word, column, example)
  local digits, suffix = string.match(word, '^([%d_]+)([kM]?)$')
  local scale = suffix == 'k' and 1000 or suffix == 'M' and 1000000 or 1
  if digits and not string.find('_' .. digits .. '_', '__', 1, true) then
    local value = tonumber((string.gsub(digits, '_', ''))) * scale
    if value >= 1 and value <= 1000000000 then
      return value
    end
  end
  text_fail(column, 'a count from 1 to 1_000_000_000, such as 100, 10k or 5M', word, example)
end

local function text_period(word, column, least, example)
  local digits, unit = string.match(word, '^(%d*)(.*)$')
  local size = text_units[unit]
  if not size then
    text_fail(column + #digits, 'a unit (us, ms, s, min, h, d, w)', unit, example)
  end
  local period = (digits == '' and 1 or tonumber(digits)) * size
  if period < least or period > 31622400000000 then
    text_fail(column, 'a period from ' .. (least == 1 and '1us' or '1ms') .. ' to 366d', word, example)
  end
  return period
end

local function text_word(limit, word, column, given)
  local name, value = string.match(word, '^([^=]*)=(.*)$')
  if not name then
    local algorithm = algorithms[word]
    if not algorithm or word == 'rolling' then
      text_fail(column, OPTIONS, word, '10/s gcra burst=20')
    elseif limit.algorithm then
      text_fail(column, 'one algorithm for a limit', word, '10/s gcra')
    end
    limit.algorithm = word
    return
  end
  local place = column + #name + 1
  if name == 'burst' then
    limit.burst = text_count(value, place, '10/s gcra burst=20')
  elseif name == 'grain' then
    limit.grain = text_period(value, place, 1, '5M/h grain=1s')
  elseif name == 'resolution' then
    limit.resolution = text_period(value, place, 1, '5/h slots resolution=10min')
  elseif name == 'spacing' then
    limit.spacing = text_period(value, place, 1, '100/s spacing=10ms')
  elseif name == 'factor' then
    limit.factor = #value <= 24 and string.match(value, '^[%d.]+$') and tonumber(value)
    if not limit.factor then
      text_fail(place, 'a number such as 1.5', value, '100/10s decay factor=2')
    end
  elseif name == 'align' then
    limit.align = value == 'clock' and 1 or value == 'first' and 0
    if not limit.align then
      text_fail(place, 'clock or first', value, '1000/h fixed align=clock')
    end
  elseif name == 'name' then
    if #value > 64 or not string.match(value, '^[%w_-]+$') then
      text_fail(place, 'a name of 1 to 64 letters, digits, - and _', value, '5/h name=login')
    end
    limit.name = value
  else
    text_fail(column, OPTIONS, name, '10/s gcra burst=20')
  end
  if given[name] then
    text_fail(column, name .. '= once', word)
  end
  given[name] = place - #name - 1
end

-- The id a limit's state is filed under, as limit.rs makes it.
local function text_id(limit)
  if limit.name then
    return limit.name
  end
  local id = string.format('%s/%.0f', limit.algorithm, limit.period)
  if limit.resolution then
    id = id .. string.format('/%.0f', limit.resolution)
  end
  if limit.align == 1 then
    id = id .. '/clock'
  end
  if limit.factor then
    -- The shortest digits that are this double again, as Rust prints it.
    for digits = 1, 17 do
      local shown = string.format('%.' .. digits .. 'g', limit.factor)
      if tonumber(shown) == limit.factor then
        id = id .. '/' .. (string.find(shown, 'e', 1, true) and string.format('%.0f', limit.factor) or shown)
        break
      end
    end
  end
  return id
end

local function text_limit(piece, column)
  local limit, given, rate = {}, {}, nil
  for place, word in string.gmatch(piece, '()([^ ]+)') do
    place = column + place - 1
    if rate then
      text_word(limit, word, place, given)
    else
      rate = word
      local slash = string.find(word, '/', 1, true)
      if not slash then
        text_fail(place, 'a count, a slash and a period', word)
      end
      limit.count = text_count(string.sub(word, 1, slash - 1), place)
      limit.period = text_period(string.sub(word, slash + 1), place + slash, 1000)
    end
  end
  if not rate then
    text_fail(column, 'a limit: count/period', '')
  end
  limit.algorithm = limit.algorithm or 'sliding'
  local takes = algorithms[limit.algorithm].takes
  for name, place in pairs(given) do
    if name ~= 'name' and name ~= 'spacing' and name ~= takes then
      text_fail(place, 'an option of ' .. limit.algorithm, name)
    end
  end
  if (takes == 'resolution' or takes == 'factor') and not limit[takes] or limit.algorithm == 'bucket' and not limit.burst then
    text_fail(column + #piece, takes .. '=, which ' .. limit.algorithm .. ' needs', '')
  end
  local option = limit[takes] or takes == 'burst' and limit.count or takes == 'grain' and 1 or 0
  local tag = string.sub(sha1hex(text_id(limit)), 1, 8)
  if limit.name then
    tag = tag .. letters[limit.algorithm]
  end
  local text = string.match(piece, '^ *(.-) *$')
  return { limit.algorithm, limit.count, limit.period, option, limit.spacing or 0, tag, text = text }
end

-- The limits of a policy's text.
local function parse(text)
  if #text > 8192 then
    text_fail(1, 'a policy of at most 8192 bytes', text)
  end
  local limits, column = {}, 1
  for piece in string.gmatch(text .. ',', '([^,]*),') do
    if #limits == 32 then
      text_fail(column, '1 to 32 limits', piece, '10/s, 1000/h')
    end
    limits[#limits + 1] = text_limit(piece, column)
    column = column + #piece + 1
  end
  return limits
end
