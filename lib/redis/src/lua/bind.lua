-- bind: what the twins may call, bound once. A library is loaded without these and binds them when it is
-- first called.
local floor, ceil, max, min, sub, entry_pack, entry_unpack
local call, pcall_redis, may_call, sha1hex, pack, unpack_value
-- The first item of every value, and the field of a hash that holds the value.
local VERSION, HEAD = 1, 'h'
local WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value: expected a state of tollgate'

local function bind()
  floor, ceil, max, min, sub = math.floor, math.ceil, math.max, math.min, string.sub
  entry_pack, entry_unpack, pack, unpack_value = struct.pack, struct.unpack, cmsgpack.pack, cmsgpack.unpack
  call, pcall_redis, may_call, sha1hex = redis.call, redis.pcall, redis.acl_check_cmd, redis.sha1hex
end
