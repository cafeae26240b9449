-- fields: where the chunks of long logs are in a key that is a hash. A script without logs needs this too: a log that
-- another policy left may have expired.
-- Chunks deleted by one call, so that a long pause is not paid for at once.
local FREED_AT_ONCE = 64
local function chunk_field(tag, number)
  return tag .. struct.pack('>I4', number)
end

-- Forgets up to FREED_AT_ONCE chunks from `oldest` on and before `live`; answers the oldest left.
local function free(fields, tag, oldest, live)
  local last = min(oldest + FREED_AT_ONCE, live)
  for number = oldest, last - 1 do
    fields[#fields + 1] = chunk_field(tag, number)
  end
  return last
end
