-- chunks: logs in a key. A short log is in its record; what is longer is in chunks, each in a field of
-- the hash that the key then is.
read_chunk = function(log, number)
  local chunk = call('HGET', log.key, chunk_field(log.tag, number))
  if not chunk then
    error({ err = 'ERR key: expected a whole log, found a part missing; DEL the key to start anew' }, 0)
  end
  return chunk
end

-- A log from the words of its record, in the rule's own table unless it is wanted twice.
local function open_log(rule, key, words, apart)
  local algorithm, log = rule.algorithm, rule.log
  if apart or not log then
    log = ring_new(algorithm.log, key, rule.tag)
    rule.log = log
  else
    ring_clear(log, key)
  end
  if not words then
    return log
  end
  log.total, log.newest, log.skew, log.tail = words[1], words[2], words[3], words[4]
  local next = 5
  if algorithm.anchored then
    log.anchor, next = log.newest - words[5], 6
  end
  if words[next] then
    log.front, log.first, log.chunks, log.oldest = words[next], words[next + 1], words[next + 2], words[next + 3]
  end
  local kind, tail = log.kind, #log.tail
  log.len = (#log.front + tail + log.chunks * kind[3]) / kind[2]
  if tail > 0 then
    log.last = entry_unpack(kind[1], log.tail, tail - kind[2] + 1)
  elseif log.len > 0 then
    log.last = ring_get(log, log.len - 1)
  end
  if log.last and not algorithm.anchored then
    log.newest = log.newest + log.last
  end
  return log
end

-- The words of a log's record. Times close to each other are short.
local function close_log(algorithm, log)
  local newest = algorithm.anchored and log.newest or log.len > 0 and log.newest - log.last or 0
  local words = { log.total, newest, log.skew, log.tail }
  if algorithm.anchored then
    words[5] = log.newest - log.anchor
  end
  if log.front ~= '' or log.chunks > 0 or log.oldest < log.first then
    local next = #words
    words[next + 1], words[next + 2], words[next + 3], words[next + 4] = log.front, log.first, log.chunks, log.oldest
  end
  return words
end
