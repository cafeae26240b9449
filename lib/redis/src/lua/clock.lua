-- clock: the home's, in microseconds; the milliseconds a key of a policy outlives its state, so that a
-- clock set back a little does not lose it; and those a dialect's key does. Tests replace the line, and
-- nothing that is installed can.
local function clock(args) local time = call('TIME') return time[1] * 1000000 + time[2], 1000, 0 end
