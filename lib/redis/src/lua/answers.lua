-- answers: what goes wrong, as an error reply that names the argument; and text from numbers, which
-- never go through tostring: it prints 14 digits.
local function fail(argument, expected, found)
  error({ err = 'ERR ' .. argument .. ': expected ' .. expected .. ', found ' .. found }, 0)
end

-- What stands there, safe to be shown: no byte of it can end a line of a protocol or a log.
local function quote(text)
  local short = string.sub(text, 1, 40)
  short = string.gsub(short, '[^\32-\126]', function(byte)
    return string.format('\\x%02x', string.byte(byte))
  end)
  return '"' .. short .. (#text > 40 and '...' or '') .. '"'
end

-- The number of digits that is `text`, from `least` to `most`.
local function whole(argument, text, least, most)
  local number = string.find(text, '^%d+$') and tonumber(text)
  if not number or number < least or number > most or #text > 16 and number == EXACT then
    fail(argument, string.format('an integer from %.0f to %.0f', least, most), quote(text))
  end
  return number
end

local function flat_wait(wait)
  return wait == NEVER and -1 or wait
end

-- Runs a call; what is wrong with it becomes its answer.
local function answer(run, keys, args)
  local done, reply = pcall(run, keys, args)
  if done then
    return reply
  end
  -- An error table arrives as its text.
  reply = type(reply) == 'table' and reply.err or reply
  if string.find(reply, '^%u+ ') then
    return { err = reply }
  end
  -- msgpack could not make anything of the value; anything else is a fault of ours.
  return { err = string.find(reply, ' in input') and WRONG_TYPE or 'ERR tollgate: ' .. reply }
end

-- The only key of a call.
local function one_key(keys)
  if #keys ~= 1 then
    fail('keys', '1', string.format('%d', #keys))
  end
  return keys[1]
end

-- The only key of a call of our own, which is no dialect's: it has a name.
local function native_key(keys)
  local key = one_key(keys)
  if key == '' or #key > 2048 then
    fail('key', 'a name of 1 to 2048 bytes', quote(key))
  end
  return key
end

-- Whether a decision changed what is remembered.
local function changed(entry)
  for place = 1, #entry.cells do
    if entry.cells[place].dirty then
      return true
    end
  end
  return false
end

-- The integers of a flat reply.
local function flat(allowed, granted, remaining, wait, reset_after, limited_by)
  return { allowed and 1 or 0, granted, remaining, allowed and 0 or flat_wait(wait), reset_after, limited_by }
end
