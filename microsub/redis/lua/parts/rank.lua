-- rank(key, score, id): the position of (score, id) in a sorted set that is read newest first, that is by score and
-- then by member, both descending. Returns the number of members before it, and 1 if the member itself is there with
-- that score, else 0: then the number is its former rank, found among the ties by bisection. So a page costs the same
-- at any depth and any size.
local function rank(key, score, id)
  local stands = redis.call('ZSCORE', key, id)
  if stands and tonumber(stands) == tonumber(score) then
    return redis.call('ZREVRANK', key, id), 1
  end
  local low = redis.call('ZCOUNT', key, '(' .. score, '+inf')
  local high = low + redis.call('ZCOUNT', key, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call('ZREVRANGE', key, middle, middle)[1] > id then
      low = middle + 1
    else
      high = middle
    end
  end
  return low, 0
end
