-- ring: where a log keeps its entries, the twin of ring.rs in what it does and not in how. An entry
-- is bytes: its time (7) and the units before it (6 or 7). The oldest entries are in `front`, the
-- newest in `tail`, both read with the state; full chunks between them are read one by one, by
-- read_chunk of the envelope, and written by it from `writes`. A log that is short has no chunks.
local read_chunk
-- The format of an entry, its bytes, those of a chunk (with its overhead that fills 512 of memory), and the
-- modulus of its units.
local NARROW, WIDE = { '<I7I6', 13, 494, 281474976710656 }, { '<I7I7', 14, 504, EXACT }

-- A log of this kind of entry, with all its fields: sixteen at most, since a table doubles.
local function ring_new(kind, key, tag)
  return {
    total = 0, newest = 0, skew = 0, anchor = 0, tail = '', front = '', first = 0, chunks = 0, oldest = 0,
    len = 0, last = nil, kind = kind, key = key, tag = tag, writes = nil,
  }
end

-- The same log, emptied: a table that is used again costs half of one that is made.
local function ring_clear(log, key)
  log.total, log.newest, log.skew, log.anchor, log.tail, log.front = 0, 0, 0, 0, '', ''
  log.first, log.chunks, log.oldest, log.len, log.last, log.key, log.writes = 0, 0, 0, 0, nil, key, nil
  return log
end

local function ring_chunk(log, number)
  return log.writes and log.writes[number] or read_chunk(log, number)
end

-- The piece of the log that holds the entry, by its name or its number, and the place in it.
local function ring_find(log, index)
  local place = index * log.kind[2]
  local front, full = #log.front, log.kind[3]
  if place < front then
    return 'front', log.front, place + 1
  end
  place = place - front
  if place < log.chunks * full then
    local number = floor(place / full)
    return log.first + number, ring_chunk(log, log.first + number), place - number * full + 1
  end
  return 'tail', log.tail, place - log.chunks * full + 1
end

local function ring_get(log, index)
  local place = index * log.kind[2]
  if place < #log.front then
    return entry_unpack(log.kind[1], log.front, place + 1)
  end
  local _, piece, at = ring_find(log, index)
  return entry_unpack(log.kind[1], piece, at)
end

local function ring_put(log, name, piece)
  if name == 'front' or name == 'tail' then
    log[name] = piece
  else
    log.writes = log.writes or {}
    log.writes[name] = piece
  end
end

local function ring_set(log, index, at, before)
  local name, piece, place = ring_find(log, index)
  local entry = entry_pack(log.kind[1], at, before)
  ring_put(log, name, sub(piece, 1, place - 1) .. entry .. sub(piece, place + log.kind[2]))
  if index == log.len - 1 then
    log.last = at
  end
end

local function ring_push(log, at, before)
  local tail = log.tail
  if #tail >= log.kind[3] then
    if log.chunks == 0 and #log.front <= log.kind[3] then
      log.front = log.front .. tail
    else
      ring_put(log, log.first + log.chunks, tail)
      log.chunks = log.chunks + 1
    end
    tail = ''
  end
  log.tail = tail .. entry_pack(log.kind[1], at, before)
  log.len = log.len + 1
  log.last = at
end

local function ring_drop_front(log, count)
  local bytes = count * log.kind[2]
  log.len = log.len - count
  if bytes < #log.front then
    log.front = sub(log.front, bytes + 1)
    return
  end
  bytes = bytes - #log.front
  local skipped = min(floor(bytes / log.kind[3]), log.chunks)
  bytes = bytes - skipped * log.kind[3]
  log.front = ''
  log.first = log.first + skipped
  log.chunks = log.chunks - skipped
  if log.chunks > 0 then
    log.front = sub(ring_chunk(log, log.first), bytes + 1)
    log.first = log.first + 1
    log.chunks = log.chunks - 1
  else
    log.tail = sub(log.tail, bytes + 1)
  end
  if log.len == 0 then
    log.last = nil
  end
end

local function ring_drop_back(log)
  log.len = log.len - 1
  if log.tail == '' and log.chunks > 0 then
    log.chunks = log.chunks - 1
    log.tail = ring_chunk(log, log.first + log.chunks)
  elseif log.tail == '' then
    log.front, log.tail = '', log.front
  end
  log.tail = sub(log.tail, 1, -1 - log.kind[2])
  log.last = nil
  if log.len > 0 then
    log.last = ring_get(log, log.len - 1)
  end
end

-- Takes `units` off what was before each entry from `index` on.
local function ring_shift(log, index, units)
  while index < log.len do
    local name, piece, place = ring_find(log, index)
    local parts = { sub(piece, 1, place - 1) }
    while place <= #piece do
      local at, before = entry_unpack(log.kind[1], piece, place)
      parts[#parts + 1] = entry_pack(log.kind[1], at, (before - units) % log.kind[4])
      place = place + log.kind[2]
      index = index + 1
    end
    ring_put(log, name, table.concat(parts))
  end
end
