-- The ids that left a channel, each with the reason; by channel, as `sets.gone`. Needs the part reasons.
--
-- `gone` is a set of whole numbers, for which the engine needs four bytes each, or eight: 16 times an item's id, plus the
-- reason. The rest of a sorted set of layout 8, with times in whole seconds plus reason/16, is in `gone:before` until
-- timelines/repacking.py has moved it.
local old = {}

-- rest_of(sets): its key. has_old(sets): whether the channel still has it; has_no_rest(sets): somebody has looked, and
-- it hasn't.
local function rest_of(sets) return sets.gone .. ':before' end
local function has_no_rest(sets) old[sets] = false end
local function has_old(sets)
  if old[sets] == nil then old[sets] = redis.call('EXISTS', rest_of(sets)) == 1 end
  return old[sets]
end

-- An item's numbers, one for each reason; nil for a text that is no item's id. As texts they are made once in a call, which
-- may ask many channels about an item.
local numbers = {}
local function numbers_of(id)
  if not numbers[id] and string.match(id, '^%d+$') then
    local found, first = {}, 16 * id
    for reason = 1, REASONS do found[reason] = string.format('%.0f', first + reason) end
    numbers[id] = found
  end
  return numbers[id]
end

-- left_as(sets, id): the reason, as a number, why an item left the channel; nil if it didn't leave, or is no item's id.
local function left_as(sets, id)
  if not numbers_of(id) then return nil end
  local there = redis.call('SMISMEMBER', sets.gone, unpack(numbers[id]))
  for reason = 1, REASONS do
    if there[reason] == 1 then return reason end
  end
  local at = has_old(sets) and redis.call('ZSCORE', rest_of(sets), id)
  return at and (tonumber(at) - math.floor(tonumber(at))) * 16 or nil
end

-- remember(sets, id, reason): an item that isn't in `gone` has left. forget(sets, id): it can return.
local function remember(sets, id, reason) redis.call('SADD', sets.gone, 16 * id + reason) end
local function forget(sets, id)
  redis.call('SREM', sets.gone, unpack(numbers_of(id)))
  if has_old(sets) then redis.call('ZREM', rest_of(sets), id) end
end
