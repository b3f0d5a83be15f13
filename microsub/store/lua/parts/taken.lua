-- taken(feed): how often polls have counted that they take in news of the feed; 0 for what a hand may have put there.
local function taken(feed)
  local count = string.match(redis.call('HGET', feed, 'taken') or '', '^%d+$')
  return count and #count < 16 and tonumber(count) or 0
end
