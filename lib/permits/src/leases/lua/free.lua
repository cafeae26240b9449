-- free KEY lease_ms id...: gives places back; of a place that is free already nothing happens. Answers how many were
-- given back.
local ends_with = ':' .. digits(whole('lease', ARGV[1], 1, MAX_LEASE))
local freed = 0
for place = 2, #ARGV do
  freed = freed + call('ZREM', key, ARGV[place] .. ends_with)
end
mend(clock())
return freed
