-- The replies that are being sent: id → 'until item:edition item:edition …'. Expired ones belong to processes that
-- died; their impressions are free again.
local function each_shown(value, visit)
  for item, edition in string.gmatch(value, '(%d+):(%d+)') do visit(item, edition) end
end
local function held_now(key, now)
  local counts, over = {}, {}
  local flat = redis.call('HGETALL', key)
  for i = 1, #flat, 2 do
    if tonumber(string.match(flat[i + 1], '^%S+')) <= now then
      over[#over + 1] = flat[i]
    else
      each_shown(flat[i + 1], function(item, edition)
        local shown = item .. ':' .. edition
        counts[shown] = (counts[shown] or 0) + 1
      end)
    end
  end
  return counts, over, #flat / 2 - #over
end
local function seen(impressions) return tonumber(string.match(impressions or '', '^%d+') or 0) end
