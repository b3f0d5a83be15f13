-- scope_of(token, now): what a token allows; nil for one that is unknown or has expired.
local function scope_of(token, now)
  local held = redis.call('HMGET', token, 'scope', 'expires')
  if not held[1] or (held[2] and tonumber(held[2]) <= tonumber(now)) then return nil end
  return held[1]
end
