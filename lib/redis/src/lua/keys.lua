-- keys: the commands on plain keys, run where the keys are. A key is checked before it is touched: an application may
-- keep its own keys beside ours. What a key may be is found by its content and its name, in the same step.
--
-- Arguments: 1 if the caller may reset, the number of prefixes, the prefixes; then for each command its name, the number
-- of its keys, the number of its arguments, and the arguments. The keys are those of all commands in order. The reply
-- has a list for each command: what became of it, a value, and which of its keys hold the state of a limiter that the
-- command deletes, shortens or overwrites.
local DONE, FAILED, NEEDS_RESET, FOREIGN = 0, 1, 2, 3
-- The most bytes and fields that a command reads. No state of a limiter has as many in its value.
local MAX_BYTES, MAX_FIELDS = 1048576, 1024
local prefixes = {}
-- The bytes that were read for replies.
local read_bytes = 0

local function refuse(text)
  error({ err = text }, 0)
end

-- Whether all that is in a table is numbers and texts, as in the words of a state, which is never without any.
local function are_words(words)
  if type(words) ~= 'table' or next(words) == nil then
    return false
  end
  for _, word in pairs(words) do
    if type(word) ~= 'number' and type(word) ~= 'string' then
      return false
    end
  end
  return true
end

-- Whether a value is the state of a limiter, as the envelope writes it.
local function is_state(value)
  local items = { pcall(unpack_value, value) }
  if not items[1] or items[2] ~= VERSION then
    return false
  end
  local index = 3
  while items[index] ~= nil do
    local tag = items[index]
    if type(tag) == 'table' then
      for _, record in pairs(tag) do
        if type(record) ~= 'table' or type(record[1]) ~= 'string' or not are_words(record[3]) then
          return false
        end
      end
      return index > 3 and items[index + 1] == nil
    end
    if type(items[index + 1]) == 'number' then
      index = index + 1
    end
    if type(tag) ~= 'string' or not are_words(items[index + 1]) then
      return false
    end
    index = index + 2
  end
  return index > 3
end

-- What is at a key: `state` for that of a limiter, else the type as Redis names it.
local function look(key)
  local kind = call('TYPE', key).ok
  local value
  if kind == 'string' and call('GETRANGE', key, 0, 0) == string.char(VERSION) and call('STRLEN', key) <= MAX_BYTES then
    value = call('GET', key)
  elseif kind == 'hash' and call('HSTRLEN', key, HEAD) <= MAX_BYTES then
    value = call('HGET', key, HEAD)
  end
  return value and is_state(value) and 'state' or kind
end

-- Whether policies keep their states under such names.
local function is_of_policy(key)
  return sub(key, 1, 4) == 'tg:{'
end

-- Whether redis-limiter has such a key: a counter of a minute, or the data of a token.
local function is_counted(key, kind)
  local minute = string.match(key, '^{api:.*}:(%d%d?)$')
  if minute and tonumber(minute) < 60 then
    return kind == 'string' or kind == 'none'
  end
  return string.find(key, '^{api:.*}:data$') and kind == 'hash'
end

-- Whether a caller reaches a key at which there is something of this kind. The name of a state that is replaced becomes
-- that of a plain key, which is reached as a new one is.
local function is_reached(key, kind, creates, replaces)
  if is_of_policy(key) then
    return not creates and (kind == 'state' or kind == 'none')
  elseif kind == 'state' and not replaces or is_counted(key, kind) or kind == 'none' and not creates then
    return true
  end
  for _, prefix in ipairs(prefixes) do
    if sub(key, 1, #prefix) == prefix then
      return true
    end
  end
  return false
end

local function not_of_limiter(kind)
  if kind == 'state' then
    refuse('WRONGTYPE Operation against a key holding the wrong kind of value')
  end
end

-- Refuses to read more than one reply is to hold.
local function bound(bytes)
  if read_bytes + bytes > MAX_BYTES then
    refuse('ERR expected values of at most 1048576 bytes')
  end
  read_bytes = read_bytes + bytes
end

local function read_text(key, kind)
  not_of_limiter(kind)
  if kind == 'string' then
    bound(call('STRLEN', key))
  end
  return call('GET', key)
end

local function bound_fields(key, kind, names)
  not_of_limiter(kind)
  local bytes = 0
  for _, name in ipairs(names) do
    bytes = bytes + #name + call('HSTRLEN', key, name)
  end
  bound(bytes)
end

-- Keeps the data of a token, as redis-limiter's trigger does, unless something else is there.
local function count_use(data, life)
  local kind = look(data)
  if kind ~= 'none' and kind ~= 'hash' then
    return
  end
  if type(pcall_redis('HINCRBY', data, 'ops', 1)) ~= 'table' then
    call('HSET', data, 'last', call('TIME')[1])
    call('PEXPIRE', data, life)
  end
end

-- Each command: whether it may create its key; whether it takes something from a limiter; whether it passes over the
-- keys that its caller does not reach; and what it does to its keys, of these kinds, with these arguments.
local commands = {
  GET = { run = function(keys, _, kinds) return read_text(keys[1], kinds[1]) end },
  SET = { creates = true, forgets = true, run = function(keys, args, kinds)
    local before = args[1] == 'GET' and read_text(keys[1], kinds[1])
    local done = call('SET', keys[1], unpack(args, 2))
    return { done and 1 or 0, before or false }
  end },
  INCRBY = { creates = true, run = function(keys, args, kinds)
    not_of_limiter(kinds[1])
    local sum = call('INCRBY', keys[1], args[1])
    if keys[2] then
      count_use(keys[2], args[2])
    end
    return sum
  end },
  DEL = { forgets = true, run = function(keys)
    local gone = 0
    for _, key in ipairs(keys) do
      gone = gone + call('UNLINK', key)
    end
    return gone
  end },
  EXISTS = { run = function(_, _, kinds)
    local there = 0
    for _, kind in ipairs(kinds) do
      there = there + (kind == 'none' and 0 or 1)
    end
    return there
  end },
  TYPE = { run = function(_, _, kinds) return kinds[1] == 'state' and 'string' or kinds[1] end },
  EXPIRE = { forgets = true, run = function(keys, args) return call(args[1], keys[1], unpack(args, 2)) end },
  PTTL = { run = function(keys) return call('PTTL', keys[1]) end },
  ENDS = { run = function(keys)
    local left, time = call('PTTL', keys[1]), call('TIME')
    return left < 0 and left or left + time[1] * 1000 + floor(time[2] / 1000)
  end },
  HMGET = { run = function(keys, args, kinds)
    bound_fields(keys[1], kinds[1], args)
    return call('HMGET', keys[1], unpack(args))
  end },
  HLEN = { run = function(keys, _, kinds)
    not_of_limiter(kinds[1])
    return call('HLEN', keys[1])
  end },
  HGETALL = { run = function(keys, _, kinds)
    not_of_limiter(kinds[1])
    if call('HLEN', keys[1]) > MAX_FIELDS then
      refuse('ERR expected at most 1024 fields')
    end
    bound_fields(keys[1], kinds[1], call('hkeys', keys[1]))
    return call('HGETALL', keys[1])
  end },
  -- The type of each key that a caller reaches.
  LOOK = { passes = true, run = function(keys, _, kinds)
    local found = {}
    for place, kind in ipairs(kinds) do
      found[place] = kind == 'state' and 'string' or kind
    end
    return found
  end },
  -- Deletes states and nothing else, where the command before it was done.
  CLEAR = { passes = true, follows = true, run = function(keys, _, kinds)
    local gone = 0
    for place, key in ipairs(keys) do
      if kinds[place] == 'state' then
        gone = gone + call('UNLINK', key)
      end
    end
    return gone
  end },
  FLUSH = { passes = true, run = function(keys, _, kinds)
    local gone = 0
    for place, key in ipairs(keys) do
      if kinds[place] then
        gone = gone + call('UNLINK', key)
      end
    end
    return gone
  end },
}

-- Runs one command: see the first lines.
local function run(name, keys, args, may_reset)
  local command, kinds, limiters = commands[name], {}, {}
  -- The second key of an increment is checked where it is written.
  local checked = name == 'INCRBY' and 1 or #keys
  for place = 1, checked do
    local key = keys[place]
    local kind = look(key)
    kinds[place] = kind
    if command.passes then
      kinds[place] = kind ~= 'none' and not is_of_policy(key) and is_reached(key, kind) and kind
    elseif not is_reached(key, kind, command.creates, command.creates and command.forgets) then
      return { FOREIGN, place }
    elseif kind == 'state' and command.forgets then
      limiters[#limiters + 1] = place
    end
  end
  if limiters[1] and not may_reset then
    return { NEEDS_RESET, false, unpack(limiters) }
  end
  local done, value = pcall(command.run, keys, args, kinds)
  if not done then
    return { FAILED, type(value) == 'table' and value.err or value, unpack(limiters) }
  end
  return { DONE, value, unpack(limiters) }
end

-- Takes the next words: how many, and from where.
local function take(words, from, count)
  local taken = {}
  for place = from, from + count - 1 do
    taken[#taken + 1] = words[place]
  end
  return taken
end

local function on_keys(keys, args)
  local at, key_at, replies = 3 + tonumber(args[2]), 1, {}
  prefixes = take(args, 3, at - 3)
  while args[at] do
    local key_count, arg_count = tonumber(args[at + 1]), tonumber(args[at + 2])
    local own, words = take(keys, key_at, key_count), take(args, at + 3, arg_count)
    local last = replies[#replies]
    local is_left_out = commands[args[at]].follows and last[1] ~= DONE
    replies[#replies + 1] = is_left_out and { DONE, 0 } or run(args[at], own, words, args[1] == '1')
    at, key_at = at + 3 + arg_count, key_at + key_count
  end
  return replies
end
