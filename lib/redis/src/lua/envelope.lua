-- envelope: the only Lua that touches Redis. It reads a key, and after all is decided writes it.
--
-- A key holds one value: msgpack of the version, then for each limit its tag, the last charge if it
-- has a spacing, and its state; then what limits of other policies left, if anything. A log's state
-- holds the oldest and the newest entries; once it has chunks between them, the key becomes a hash:
-- the value in field `h`, a chunk each in fields named by tag and number.
-- Limits that a key remembers beside those of the policy it is asked under, at most.
local MAX_OTHER_LIMITS = 64
-- How long such a record is kept at a key without expiry, which somebody made: 366 days.
local MAX_KEPT = 31622400000000

-- What the limit remembers, in the rule's own cell unless it is wanted twice.
local function cell_of(rule, key, words, last, apart)
  local algorithm, cell, state = rule.algorithm, rule.cell, words
  if algorithm.log then
    state = open_log(rule, key, words, apart)
  elseif not words then
    state = algorithm.fresh()
  end
  if apart or not cell then
    cell = new_cell(state, last)
    rule.cell = cell
    return cell
  end
  cell.state, cell.last, cell.dirty = state, last, false
  return cell
end

local function wrong_type()
  error({ err = WRONG_TYPE }, 0)
end

-- The value at the key, nil if there is none, and whether the key is a hash.
local function read(key)
  local value = pcall_redis('GET', key)
  if type(value) ~= 'table' then
    if value and string.byte(value) ~= VERSION then
      wrong_type()
    end
    return value or nil, false
  end
  value = pcall_redis('HGET', key, HEAD)
  if type(value) == 'table' and not string.find(value.err, '^WRONGTYPE') then
    -- A user may lack the right to a name that a dialect derives from its key.
    error({ err = value.err }, 0)
  elseif type(value) ~= 'string' or string.byte(value) ~= VERSION then
    wrong_type()
  end
  return value, true
end

-- Lets go of a record; its chunks, if it has any, go when the key is written.
local function drop(entry, record)
  if entry.hashed and #record[3] > 7 then
    entry.dropped = entry.dropped or {}
    entry.dropped[#entry.dropped + 1] = record
  end
end

-- Takes a value apart whose records are not just those of the rules, in their order. Callers choose policies, so a
-- key that has no place for one more is an error, and nothing that it remembers is given up.
local function adopt(entry, rules, items, t, margin, resets)
  local records, kept = {}, {}
  if #items < 2 then
    wrong_type()
  end
  local index = 2
  while index <= #items do
    local tag, last, words = items[index], nil, items[index + 1]
    if type(tag) == 'table' then
      for _, record in ipairs(tag) do
        records[record[1]] = record
      end
      break
    end
    if type(words) == 'number' then
      last, words, index = words, items[index + 2], index + 1
    end
    if type(tag) ~= 'string' or type(words) ~= 'table' then
      wrong_type()
    end
    -- Left behind from now on, at most for as long as the key would have lived.
    records[tag] = { tag, false, words, last }
    index = index + 2
  end
  local is_known = true
  for place, rule in ipairs(rules) do
    -- A name under another algorithm has another tag: both stay until they expire.
    local record = records[rule.tag]
    records[rule.tag] = nil
    is_known = is_known and record ~= nil
    entry.cells[place] = cell_of(rule, entry.key, record and record[3], record and record[4], entry.apart)
  end
  local lives
  for _, record in pairs(records) do
    if not record[2] then
      lives = lives or call('PTTL', entry.key)
      record[2] = t + (lives < 0 and MAX_KEPT or max(lives - margin, 0) * 1000)
    end
    if record[2] > t then
      kept[#kept + 1] = record
    else
      drop(entry, record)
    end
  end
  table.sort(kept, function(one, other)
    return one[2] > other[2] or one[2] == other[2] and one[1] < other[1]
  end)
  if #kept > MAX_OTHER_LIMITS and not is_known and not resets then
    local expected = 'ERR key: expected at most %d other limits remembered for a key, found %d; '
    local hint = 'use fewer policies on a key or wait until they expire'
    error({ err = string.format(expected, MAX_OTHER_LIMITS, #kept) .. hint }, 0)
  end
  entry.kept = kept[1] and kept
end

-- What the key remembers under the rules at `t`: its cells, and what it takes to write it back. Several keys
-- may be open under one policy, each `apart`. A key that is to be forgotten needs no place.
local function open(key, rules, t, margin, apart, resets)
  local value, hashed = read(key)
  local cells = {}
  local entry = {
    key = key, rules = rules, cells = cells, found = value ~= nil, hashed = hashed, apart = apart, kept = nil, dropped = nil,
  }
  if not value then
    for place = 1, #rules do
      cells[place] = cell_of(rules[place], key, nil, nil, apart)
    end
    return entry
  end
  if #rules == 1 then
    local _, tag, words, more = unpack_value(value)
    if tag == rules[1].tag and more == nil and type(words) == 'table' then
      cells[1] = cell_of(rules[1], key, words, nil, apart)
      return entry
    end
  end
  local items = { unpack_value(value) }
  if #items == 1 + 2 * #rules then
    local same = true
    for place = 1, #rules do
      same = same and items[2 * place] == rules[place].tag and type(items[2 * place + 1]) == 'table'
    end
    if same then
      for place = 1, #rules do
        cells[place] = cell_of(rules[place], key, items[2 * place + 1], nil, apart)
      end
      return entry
    end
  end
  adopt(entry, rules, items, t, margin, resets)
  return entry
end

-- What other policies left, to be written again: what has expired goes, its chunks bit by bit.
local function keep(entry, freed)
  for _, record in ipairs(entry.dropped or {}) do
    local words = record[3]
    local last = #words
    words[last] = free(freed, record[1], words[last], words[last - 2] + words[last - 1])
    if words[last] < words[last - 2] + words[last - 1] then
      entry.kept = entry.kept or {}
      entry.kept[#entry.kept + 1] = record
    end
  end
  return entry.kept
end

-- Whether chunks belong to the key's value.
local function has_chunks(entry, kept)
  local rules, cells = entry.rules, entry.cells
  for place = 1, #rules do
    if rules[place].algorithm.log and cells[place].state.chunks > 0 then
      return true
    end
  end
  if kept and entry.hashed then
    for _, record in ipairs(kept) do
      if #record[3] > 7 then
        return true
      end
    end
  end
  return false
end

-- The words of a cell's record.
local function words_of(rule, state, big)
  if not rule.algorithm.log then
    return state
  end
  if not big then
    -- Whatever chunks there were go with the hash.
    state.first, state.oldest = 0, 0
  end
  return close_log(rule.algorithm, state)
end

-- The value of the key.
local function encode(entry, kept, big)
  local rules, cells = entry.rules, entry.cells
  if #rules == 1 and not kept and not cells[1].last then
    return pack(VERSION, rules[1].tag, words_of(rules[1], cells[1].state, big))
  end
  -- Made with room for three limits.
  local items, count = { VERSION, nil, nil, nil, nil, nil, nil }, 1
  for place = 1, #rules do
    local rule, cell = rules[place], cells[place]
    items[count + 1] = rule.tag
    if cell.last then
      count = count + 1
      items[count + 1] = cell.last
    end
    items[count + 2] = words_of(rule, cell.state, big)
    count = count + 2
  end
  if kept then
    count = count + 1
    items[count] = kept
  end
  return pack(unpack(items, 1, count))
end

-- Refuses the whole call if the user may not run a command of it: a script is not rolled back.
local function need(...)
  if not may_call(...) then
    error({ err = 'NOPERM this user has no permissions to run ' .. (...) .. ', which this call needs' }, 0)
  end
end

-- Writes the hash: the chunks that changed, and away with those that have left.
local function write_hash(entry, freed, expiry)
  local key, fields = entry.key, { HEAD, '' }
  for place, rule in ipairs(entry.rules) do
    local log = rule.algorithm.log and entry.cells[place].state
    if log then
      if log.writes then
        for number, chunk in pairs(log.writes) do
          if number >= log.first then
            fields[#fields + 1], fields[#fields + 2] = chunk_field(log.tag, number), chunk
          end
        end
      end
      if log.oldest < log.first then
        log.oldest = free(freed, log.tag, log.oldest, log.first)
      end
    end
  end
  fields[2] = encode(entry, entry.kept, true)
  if freed[1] then
    need('HDEL', key, HEAD)
  end
  if entry.hashed then
    call('PEXPIRE', key, expiry)
    call('HSET', key, unpack(fields))
  else
    -- A hash takes two commands to be made with its expiry.
    need('HSET', key, HEAD, '')
    need('PEXPIRE', key, 1)
    if entry.found then
      call('DEL', key)
    end
    call('HSET', key, unpack(fields))
    call('PEXPIRE', key, expiry)
  end
  if freed[1] then
    call('HDEL', key, unpack(freed))
  end
end

-- Writes what the key remembers, for `life` microseconds and `margin` milliseconds from `t` on.
local function write(entry, t, life, margin)
  local freed, kept = nil, entry.kept
  if entry.dropped then
    freed = {}
    kept = keep(entry, freed)
  end
  if kept then
    for _, record in ipairs(kept) do
      life = max(life, record[2] - t)
    end
  end
  if life <= 0 then
    if entry.found then
      call('UNLINK', entry.key)
    end
    return
  end
  local expiry = ceil(life / 1000) + margin
  if has_chunks(entry, kept) then
    return write_hash(entry, freed or {}, expiry)
  end
  if entry.hashed then
    need('SET', entry.key, '', 'PX', 1)
    call('UNLINK', entry.key)
  end
  call('SET', entry.key, encode(entry, kept, false), 'PX', expiry)
end

-- The time for which something at the key is to be remembered, what other policies left included.
local function whole_life(entry, t, life)
  for _, record in ipairs(entry.kept or {}) do
    life = max(life, record[2] - t)
  end
  return life
end

-- A key that somebody made immortal gets its expiry again.
local function mend(key, found, life, margin)
  if found and call('PTTL', key) == -1 then
    call('PEXPIRE', key, ceil(life / 1000) + margin)
  end
end

-- The state of a rule that is alone at its key, and whether there was a key; nil if the key is a hash or
-- holds more, which `open` is for.
local function open_one(key, rule)
  local value = pcall_redis('GET', key)
  local algorithm, words = rule.algorithm, nil
  if value then
    if type(value) == 'table' then
      return nil
    end
    local version, tag, found, more = unpack_value(value)
    if version ~= VERSION then
      wrong_type()
    elseif tag ~= rule.tag or more ~= nil or type(found) ~= 'table' then
      return nil
    end
    words = found
  end
  if algorithm.log then
    return open_log(rule, key, words), value
  end
  return words or algorithm.fresh(), value
end

-- Writes the state of a rule that is alone at its key.
local function write_one(key, rules, state, found, t, life, margin)
  local rule = rules[1]
  if life <= 0 or rule.algorithm.log and state.chunks > 0 then
    local entry = { key = key, rules = rules, cells = { new_cell(state) }, found = found, hashed = false }
    return write(entry, t, life, margin)
  end
  local words = rule.algorithm.log and words_of(rule, state, false) or state
  call('SET', key, pack(VERSION, rule.tag, words), 'PX', ceil(life / 1000) + margin)
end
