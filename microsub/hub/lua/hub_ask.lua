-- Stores a subscriber's request to the hub until it is verified.
--
-- Atomic: the counts and the write, so concurrent requests can't exceed the limits.
--
-- KEYS  1 subscriptions: of an owner
-- ARGV  1 subscription: <digest of the topic>.<of the callback's host>.<of the callback>  2 request  3 life: time to
--       live of the key  4 of_owner: maximum of an owner  5 of_topic: maximum of a topic  6 of_topic_on_host: maximum
--       of a topic on one host
-- reply '' if it was stored, else the limit that is reached: 'owner', 'topic' or 'host'
local id = ARGV[1]
local known = redis.call('HEXISTS', KEYS[1], 'sub ' .. id) + redis.call('HEXISTS', KEYS[1], 'ask ' .. id)
if known == 0 then
  local topic, host = string.match(id, '^(%w+)%.(%w+)')
  local all, of_topic, of_host = 0, 0, 0
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local its_topic, its_host = string.match(field, '^%w+ (%w+)%.(%w+)')
    all = all + 1
    if its_topic == topic then
      of_topic = of_topic + 1
      if its_host == host then of_host = of_host + 1 end
    end
  end
  if all >= tonumber(ARGV[4]) then return 'owner' end
  if of_topic >= tonumber(ARGV[5]) then return 'topic' end
  if of_host >= tonumber(ARGV[6]) then return 'host' end
end
redis.call('HSET', KEYS[1], 'ask ' .. id, ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return ''
