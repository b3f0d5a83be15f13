-- set_field(key, name, value): sets a field of a hash; false deletes it.
local function set_field(key, name, value)
  if value then
    redis.call('HSET', key, name, value)
  else
    redis.call('HDEL', key, name)
  end
end
